"""Collections are kept on disk, where several processes may want the same one."""

from __future__ import annotations

from pathlib import Path

from corpus.collecting import _publish


def test_of_two_processes_that_collected_a_program_the_quicker_one_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "program"
    for process in ("first", "second"):
        folder = tmp_path / f"unfinished-{process}"
        folder.mkdir()
        (folder / "kernel").write_text(process)
        _publish(folder, place)
    assert (place / "kernel").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["program"]
