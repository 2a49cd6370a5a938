"""The kernels of `native_kernels` for a GPU, as far as they are not about the host: PTX for CUDA's driver."""

from __future__ import annotations

from functools import cache

import pytest

from inductor_npu.device import build

# The driver gives each kernel two pointers more, to scratch memory, as Triton's kernels take them.
_KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry {name}({parameters}.param .u64 scratch, .param .u64 profile)
{{
{body}
  ret;
}}
"""

# Parameters, and what one program does.
_BODIES = {
    "nothing": ("", ""),
    # args: int64 output, shift; output[p] = p + shift
    "iota": (
        ".param .u64 out, .param .u64 shift, ",
        """
  .reg .b32 %x, %y, %z, %wide, %high, %p;
  .reg .b64 %place, %value, %more;
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ctaid.y;
  mov.u32 %z, %ctaid.z;
  mov.u32 %wide, %nctaid.x;
  mov.u32 %high, %nctaid.y;
  mad.lo.u32 %p, %z, %high, %y;
  mad.lo.u32 %p, %p, %wide, %x;
  ld.param.u64 %place, [out];
  ld.param.u64 %more, [shift];
  cvta.to.global.u64 %place, %place;
  mad.wide.u32 %place, %p, 8, %place;
  cvt.u64.u32 %value, %p;
  add.u64 %value, %value, %more;
  st.global.u64 [%place], %value;""",
    ),
    # args: microseconds
    "sleep": (
        ".param .u32 micros, ",
        """
  .reg .b32 %micros;
  .reg .b64 %now, %end;
  .reg .pred %early;
  ld.param.u32 %micros, [micros];
  mov.u64 %now, %globaltimer;
  mad.wide.u32 %end, %micros, 1000, %now;
again:
  nanosleep.u32 1000;
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %early, %now, %end;
  @%early bra again;""",
    ),
}


def text(body: str, name: str) -> str:
    """The PTX of the kernel with that body; skips the test where it is about the host."""
    if body not in _BODIES:
        pytest.skip(f"the kernel {body!r} is about the host")
    parameters, lines = _BODIES[body]
    return _KERNEL.format(name=name, parameters=parameters, body=lines)


@cache
def load(body: str, name: str) -> int:
    """A function handle of the kernel on the current device."""
    _, handle, *_ = build.load().load_kernel(name, text(body, name).encode() + b"\0", shared_bytes=0, threads=1)
    return handle
