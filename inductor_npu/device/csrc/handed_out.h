// Results of captured graphs lie in the graphs' memory, and move when a replay is about to overwrite them, under whoever
// holds them (replayed_call.h). Python's lock keeps them in place for those who hold it; this is for all others.
#pragma once

#include <c10/core/Stream.h>

#include <mutex>
#include <shared_mutex>

namespace inductor_npu {

// Shared: results stay where they are. Exclusive: they move, and the replay is queued. Who moves them tries, and never
// waits while it holds the lock; hence who holds it shared may do anything, also ask for it again.
std::shared_mutex& handed_out_memory();

// While it lives, results stay where they are: for whoever looks up addresses and uses them.
class ResultsStay {
 private:
  const std::shared_lock<std::shared_mutex> lock_{handed_out_memory()};
};

// What is queued on any other stream of the device from here on comes after the work queued on `stream` so far.
void order_before_other_streams(c10::Stream stream);

}  // namespace inductor_npu
