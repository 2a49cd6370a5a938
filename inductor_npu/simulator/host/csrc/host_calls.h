// Functions of the host as work of a stream: only the host's driver has them.
#pragma once

#include <functional>
#include <string>

#include "driver.h"

namespace inductor_npu::driver {

// A function that takes its turn on the stream; `name` is for messages and time lines.
void call(Stream* stream, std::string name, std::function<void()> function, WorkKind kind = WorkKind::Operator);

// The id of the stream whose work this thread is running; -1 if it runs none.
int stream_worked_off() noexcept;

}  // namespace inductor_npu::driver
