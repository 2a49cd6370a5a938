#include "collectives/group.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "collectives/work.h"
#include "host_calls.h"
#include "work_queue.h"

namespace inductor_npu::collectives {
namespace {

// Requests that gloo works on besides the one that the stream is at. They may need memory for results in another type.
constexpr size_t kMostAhead = 4;

using OwnedEvent = std::unique_ptr<driver::Event, decltype(&driver::destroy)>;

// Whether one needs what the other writes.
bool meet(const Request& one, const Request& other) {
  const auto meets = [](const Range& a, const Range& b) {
    return (a.written || b.written) && a.begin < b.end && b.begin < a.end;
  };
  return std::any_of(one.memory.begin(), one.memory.end(), [&](const Range& a) {
    return std::any_of(other.memory.begin(), other.memory.end(), [&](const Range& b) { return meets(a, b); });
  });
}

// The groups of this process, for those who wait for all of them.
class Groups {
 public:
  static Groups& instance() {
    static auto* groups = new Groups();  // never destroyed: streams may end groups late
    return *groups;
  }
  void add(Group* group) {
    std::lock_guard<std::mutex> lock(mutex_);
    groups_.insert(group);
  }
  void remove(Group* group) {
    std::lock_guard<std::mutex> lock(mutex_);
    groups_.erase(group);
  }
  template <class Visit>
  bool all_of(Visit&& visit) {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::all_of(groups_.begin(), groups_.end(), visit);
  }

 private:
  std::mutex mutex_;
  std::set<Group*> groups_;
};

// Operators on tensors of the CPU, on whatever thread lends a hand: neither autograd nor a mode of Python sees them.
class PlainOperators {
  const at::AutoDispatchBelowADInplaceOrView below_autograd_;
  const c10::impl::ExcludeDispatchKeyGuard no_python_{c10::python_ks};
};

std::string in_seconds(std::chrono::milliseconds time) {
  std::ostringstream text;
  text << static_cast<double>(time.count()) / 1000 << " s";
  return text.str();
}

void note_source(const c10d::Work& work, c10d::OpType op, Outcome& outcome) {
  if (op == c10d::OpType::RECVANYSOURCE) {
    std::lock_guard<std::mutex> lock(outcome.mutex);
    outcome.source_rank = work.sourceRank();
  }
}

}  // namespace

Group::Group(c10::intrusive_ptr<c10d::Backend> gloo, std::string name, std::chrono::milliseconds timeout)
    : gloo_(std::move(gloo)), timeout_(timeout), name_(std::move(name)) {
  Groups::instance().add(this);
}

Group::~Group() {
  Groups::instance().remove(this);
  if (own_stream_.has_value()) {
    give_back_stream(*own_stream_);
  }
  for (const c10::Stream stream : of_transfers_) {
    give_back_stream(stream);
  }
}

void Group::set_name(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  name_ = name;
}

void Group::check_usable() {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, failure_.empty(), failure_);
}

void Group::fail(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.empty()) {
    failure_ = "process group " + name_ + " takes no more collectives on rank " + std::to_string(gloo_->getRank()) +
               " of " + std::to_string(gloo_->getSize()) + ": " + reason;
  }
}

c10::intrusive_ptr<CollectiveWork> Group::announce(c10d::OpType op, c10::DeviceIndex device) {
  check_usable();
  return c10::make_intrusive<CollectiveWork>(gloo_->getRank(), op, count_.fetch_add(1) + 1, device);
}

// A request on its way: what its two pieces of work share.
struct Group::Flight {
  std::shared_ptr<Group> group;
  Request request;
  uint64_t number;
  std::shared_ptr<Outcome> outcome;
  std::vector<c10::intrusive_ptr<c10d::Work>> started{};
  // What the caller had queued before; null in a captured graph, and between two ranks.
  OwnedEvent asked{nullptr, &driver::destroy};
  // Of one that began ahead of its turn: set by who asks for it, before it is queued, or by who works off the group's
  // stream.
  bool is_ahead = false;
  std::exception_ptr failure{};

  void start();
  void start_ahead();
  void wait();
  // Its turn on the group's stream.
  void run();
  [[noreturn]] void fail();
};

void Group::submit(Request request, c10::DeviceIndex device, CollectiveWork& work) {
  const bool between_two = request.between_two;
  const c10::Stream caller = current_stream(device);
  const c10::Stream stream = between_two ? stream_of_transfer(device) : own_stream(device);
  const std::string name = request.name;
  const auto flight = std::make_shared<Flight>(shared_from_this(), std::move(request), work.getSequencenumber(),
                                               work.outcome());
  if (between_two) {
    if (driver::capture_of(native(caller)) == 0 && query_stream(caller)) {
      flight->start();
    } else {
      driver::call(native(caller), name, [flight] { flight->start(); }, WorkKind::Collective);
    }
  }
  OwnedEvent asked(driver::create_event(/*timing=*/false), &driver::destroy);
  driver::record(asked.get(), native(caller));
  driver::block(asked.get(), native(stream));
  if (between_two) {
    driver::call(native(stream), name, [flight] { flight->wait(); }, WorkKind::Collective);
  } else {
    if (driver::capture_of(native(caller)) == 0) {
      if (query_stream(caller) && query_stream(stream)) {
        flight->start_ahead();  // there is nothing to wait for, not even a thread that wakes up
      }
      flight->asked = std::move(asked);
      std::lock_guard<std::mutex> lock(mutex_);
      queued_.push_back(flight);
    }
    driver::call(native(stream), name, [flight] { flight->run(); }, WorkKind::Collective);
  }
  work.queued_on(stream);
}

void Group::run_ahead(const Flight& current) {
  std::vector<std::shared_ptr<Flight>> others;
  while (others.size() < kMostAhead) {
    std::shared_ptr<Flight> next;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (others.size() == queued_.size()) {
        return;
      }
      next = queued_[others.size()];
    }
    if (!next->is_ahead) {
      // None overtakes another: ranks tell them apart by the order in which they begin.
      const auto holds_up = [&](const auto& other) { return meet(other->request, next->request); };
      if (!driver::query(next->asked.get()) || meet(current.request, next->request) ||
          std::any_of(others.begin(), others.end(), holds_up)) {
        return;
      }
      next->start_ahead();
    }
    others.push_back(std::move(next));
  }
}

void Group::Flight::run() {
  if (asked == nullptr) {
    start();
    wait();
    return;
  }
  {
    std::lock_guard<std::mutex> lock(group->mutex_);
    TORCH_INTERNAL_ASSERT(!group->queued_.empty() && group->queued_.front().get() == this);
    group->queued_.pop_front();
  }
  if (!is_ahead) {
    start();
  } else if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  group->run_ahead(*this);
  wait();
}

void Group::Flight::start_ahead() {
  is_ahead = true;
  try {
    start();
  } catch (...) {
    failure = std::current_exception();  // told in its turn
  }
}

void Group::Flight::start() {
  const PlainOperators guard;
  try {
    group->check_usable();
    for (const Call& call : request.calls) {
      started.push_back(call.start(*group->gloo_));
    }
  } catch (...) {
    fail();
  }
}

void Group::Flight::wait() {
  const PlainOperators guard;
  const auto works = std::exchange(started, {});  // a replay of a captured graph starts others
  try {
    if (is_ahead) {
      group->check_usable();
    }
    for (size_t i = 0; i < works.size(); ++i) {
      if (works[i] != nullptr) {
        works[i]->wait();
        note_source(*works[i], request.op, *outcome);
      }
      if (request.calls[i].finish) {
        request.calls[i].finish();
      }
    }
  } catch (...) {
    fail();
  }
}

// The group fails with the exception that is being handled.
void Group::Flight::fail() {
  started.clear();
  const std::string reason = describe_current_exception();
  std::string message;
  {
    std::lock_guard<std::mutex> lock(group->mutex_);
    if (reason == group->failure_) {
      message = reason;
    } else {
      message = c10::str("rank ", group->gloo_->getRank(), " of ", group->gloo_->getSize(), ", call ", number,
                         " of process group ", group->name_, ", time-out ", in_seconds(group->timeout()), ": ", reason,
                         ". Another rank may have ended, be late, or have called something else: see the first error "
                         "of all ranks; TORCH_DISTRIBUTED_DEBUG=DETAIL compares their calls");
    }
  }
  group->fail(request.name + " failed: " + message);
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  {
    std::lock_guard<std::mutex> lock(outcome->mutex);
    outcome->error = std::make_exception_ptr(c10::DistBackendError(here, request.name + ": " + message));
  }
  TORCH_CHECK_WITH(DistBackendError, false, message);
}

c10::Stream Group::own_stream(c10::DeviceIndex device) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!own_stream_.has_value()) {
    own_stream_ = take_stream(device);
    TORCH_CHECK(own_stream_.has_value(), "there are more process groups on npu:", static_cast<int>(device),
                " than streams for them: destroy_process_group() those that are not needed");
  }
  return *own_stream_;
}

c10::Stream Group::stream_of_transfer(c10::DeviceIndex device) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const c10::Stream stream : of_transfers_) {
    if (stream.device_index() == device && driver::query(native(stream)) && driver::capture_of(native(stream)) == 0) {
      return stream;
    }
  }
  if (const std::optional<c10::Stream> stream = take_stream(device)) {
    of_transfers_.push_back(*stream);
    return *stream;
  }
  TORCH_CHECK(!of_transfers_.empty(), "there is no stream left on npu:", static_cast<int>(device),
              " for a send or a receive: destroy_process_group() the groups that are not needed");
  return of_transfers_[count_.load() % of_transfers_.size()];  // ends later than it could, in the order of its calls
}

bool Group::finish(std::chrono::steady_clock::time_point deadline) {
  std::vector<c10::Stream> streams;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    streams = of_transfers_;
    if (own_stream_.has_value()) {
      streams.push_back(*own_stream_);
    }
  }
  const auto is_idle = [](const c10::Stream stream) { return driver::query(native(stream)); };
  while (!std::all_of(streams.begin(), streams.end(), is_idle)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool finish_all(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  return Groups::instance().all_of([deadline](Group* group) { return group->finish(deadline); });
}

}  // namespace inductor_npu::collectives
