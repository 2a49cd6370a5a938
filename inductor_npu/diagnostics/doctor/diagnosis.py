"""From facts to findings: rows of a table, and a line of advice for each problem."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from inductor_npu.cache.location import kernel_store, user_store
from inductor_npu.diagnostics.doctor import machine, probe
from inductor_npu.providers import (
    ASCEND,
    NO_PROVIDER,
    PROVIDER_VARIABLE,
    PROVIDERS,
    SIMULATOR,
    TARGET_VARIABLE,
    Provider,
)
from inductor_npu.support import cann, host_compiler, versions
from inductor_npu.version import __version__

OURS = "inductor_npu."


@dataclass(frozen=True)
class Finding:
    """One row. `advice` is what to do where something is off, "" where it is not; `fatal`: as it is, torch.compile on
    npu is not ours.
    """

    about: str
    found: str
    advice: str = ""
    fatal: bool = False


def diagnose() -> list[Finding]:
    """All findings, in the order in which one decides the next."""
    looked = probe.run()
    provider, chosen = _provider(looked)
    return [
        Finding("Python", machine.python()),
        Finding("inductor-npu", __version__),
        chosen,
        *_settings(),
        _torch(looked),
        *(_torch_npu() if versions.version_of("torch_npu") or provider is ASCEND else ()),
        *_triton(provider, looked),
        *_compilers(provider),
        *_cache(),
        *_device(provider, looked),
        *(Finding("warning", warning) for warning in looked.warnings),
    ]


def _provider(looked: probe.Found) -> tuple[Provider | None, Finding]:
    """Who provides npu. Where only torch could tell, as it may have another accelerator, it is what torch has said."""
    asked = os.environ.get(PROVIDER_VARIABLE, "").strip().lower()
    how = f"{PROVIDER_VARIABLE}={asked}" if asked else "found"
    about = "provider of npu"
    if asked == NO_PROVIDER:
        return None, Finding(about, f"none ({how})", f"unset {PROVIDER_VARIABLE} to use npu", fatal=True)
    if asked and asked not in PROVIDERS:
        advice = f"{PROVIDER_VARIABLE} is one of {', '.join([*PROVIDERS, NO_PROVIDER])}"
        return None, Finding(about, f"none ({how})", advice, fatal=True)
    if not asked and not ASCEND.is_installed() and looked.facts.get("provider", SIMULATOR.name) != SIMULATOR.name:
        advice = (
            f"this torch has another accelerator: {PROVIDER_VARIABLE}={SIMULATOR.name} brings the embedded NPU, too"
        )
        return None, Finding(about, "none", advice, fatal=True)
    provider = PROVIDERS[asked] if asked else ASCEND if ASCEND.is_installed() else SIMULATOR
    kinds = {ASCEND: "an Ascend chip, driven by torch_npu", SIMULATOR: "the embedded NPU"}
    return provider, Finding(about, f"{provider.name}: {kinds[provider]} ({how})")


def _settings() -> Iterator[Finding]:
    for name, value in machine.settings().items():
        advice = ""
        if name == "TORCH_DEVICE_BACKEND_AUTOLOAD" and value != "1":
            advice = "unset it: `import torch` calls no backend, ours neither"
        elif name == "TRITON_INTERPRET" and value == "1":
            advice = "unset it: kernels run in Triton's interpreter, not on the device"
        yield Finding(f"  {name}", value, advice, fatal=bool(advice) and name.startswith("TORCH_"))


def _torch(looked: probe.Found) -> Finding:
    version = versions.version_of("torch")
    if version is None:
        advice = "pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
        return Finding("torch", "not installed", advice, fatal=True)
    if "torch" not in looked.facts:
        return Finding("torch", f"{version}, does not import", looked.failure, fatal=True)
    problems = [text for text in versions.version_problems(version, "3.6.0") if text.startswith("torch")]
    return Finding("torch", f"{version}, {looked.facts['torch'][1]}", "; ".join(problems))


def _torch_npu() -> Iterator[Finding]:
    version, torch = versions.version_of("torch_npu"), versions.version_of("torch") or ""
    if version is None:
        yield Finding("torch_npu", "not installed", f"pip install torch_npu=={torch.partition('+')[0]}", fatal=True)
        return
    wanted = ".".join(torch.split(".")[:2])
    fits = version.startswith(f"{wanted}.")
    yield Finding(
        "torch_npu", version, "" if fits else f"it is made for another torch: install torch_npu=={wanted}.*", not fits
    )
    home = cann.folder()
    if home is None:
        yield Finding("CANN", "not found", "source the set_env.sh of CANN's toolkit, which sets ASCEND_HOME_PATH")
    else:
        yield Finding("CANN", f"{cann.version(home) or 'unknown'}, {home}")


def _triton(provider: Provider | None, looked: probe.Found) -> Iterator[Finding]:
    installed = versions.installed_tritons()
    text = ", ".join(f"{name} {version}" for name, version in installed.items()) or "not installed"
    wanted = "triton-ascend" if provider is ASCEND else "triton"
    if not installed:
        version = "3.2.0" if provider is ASCEND else "3.6.0"
        yield Finding("Triton", text, f"pip install {wanted}=={version}", fatal=True)
        return
    if len(installed) > 1:
        others = " ".join(name for name in installed if name != wanted)
        advice = f"they share one folder: pip uninstall {others}, then pip install --force-reinstall --no-deps {wanted}"
        yield Finding("Triton", text, advice, fatal=True)
        return
    if provider is ASCEND and wanted not in installed:
        advice = f"it does not know Ascend chips: pip uninstall {next(iter(installed))}, then pip install {wanted}"
        yield Finding("Triton", text, advice, fatal=True)
        return
    problems = versions.version_problems("2.13", next(iter(installed.values())))
    loaded = looked.facts.get("triton")
    place = f", {loaded[1]} (backends: {', '.join(loaded[2])})" if loaded else f", {machine.place_of('triton')}"
    yield Finding("Triton", text + place, "; ".join(problems))


def _compilers(provider: Provider | None) -> Iterator[Finding]:
    host = host_compiler.find()
    if host is None:
        yield Finding("C++ compiler", "none", "apt install g++ (or set CXX): what runs on the host is built with it")
    else:
        yield Finding("C++ compiler", str(host))
    if provider is ASCEND:
        found = machine.bishengir()
        advice = "" if found else "put bishengir-compile on PATH: CANN's set_env.sh does, or pip install ascendnpu-ir"
        yield Finding(
            "Ascend's compiler", str(found or "bishengir-compile is not on PATH"), advice, fatal=found is None
        )


def _cache() -> Iterator[Finding]:
    for store in dict.fromkeys((kernel_store(), user_store())):
        where = next(folder for folder in (store.folder, *store.folder.parents) if folder.exists())
        bad = "" if os.access(where, os.W_OK) else "it cannot be written; INDUCTOR_NPU_CACHE_DIR names another"
        listed = list(store.listed())
        yield Finding("cache", f"{len(listed)} entries in {store.folder}", bad)


def _device(provider: Provider | None, looked: probe.Found) -> Iterator[Finding]:
    """What the process that looked has seen, from the device to a kernel; the first that it has not seen says why."""
    seen = looked.facts
    if "torch" not in seen:
        return
    if not seen.get("devices"):
        advice = looked.failure or "the chip's driver shows none: ask npu-smi info"
        if looked.warnings:
            advice = "see the warning"
        if provider is ASCEND:
            advice += f"; {PROVIDER_VARIABLE}={SIMULATOR.name} takes the embedded NPU instead"
        yield Finding("devices", "none", advice if provider else "", fatal=True)
        return
    yield Finding("devices", f"{seen['devices']}, {seen.get('chip', 'of an unknown kind')}")
    if "target" not in seen:
        yield Finding("code is generated for", "nothing", looked.failure, fatal=True)
        return
    how = f" ({TARGET_VARIABLE})" if os.environ.get(TARGET_VARIABLE) else ""
    yield Finding("code is generated for", seen["target"] + how)
    who = seen.get("generates code") or "nobody"
    ours = who.startswith(OURS)
    advice = looked.failure or ("" if ours else "import torch before torch_npu, and torch_npu._inductor not at all")
    yield Finding("Inductor's backend for npu", who, "" if ours else advice, fatal=not ours)
    if "kernel" in seen:
        right = seen["kernel"]
        advice = "" if right else "its values are wrong: please report it with this output"
        yield Finding("a compiled function", "right" if right else "WRONG", advice, fatal=not right)
    else:
        yield Finding("a compiled function", "failed", looked.failure, fatal=True)
