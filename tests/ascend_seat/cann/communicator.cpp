// Communicators: how they are made, what they exchange, how they end.
#include "communicator.h"

#include <cstdlib>
#include <cstring>

#include "third_party/hccl/inc/hccl/hccl.h"

namespace standin {
namespace {

// As CANN's documentation has them, in seconds.
constexpr long kToConnect = 120;
constexpr long kToRun = 1836;

// What a task of HCCL's leaves in its stream.
constexpr int kTaskTimedOut = 507048;   // ACL_ERROR_RT_FFTS_PLUS_TIMEOUT
constexpr int kTaskException = 507049;  // ACL_ERROR_RT_FFTS_PLUS_EXCEPTION

long seconds(const char* variable, long otherwise) {
  const char* value = std::getenv(variable);
  return value && *value ? std::atol(value) : otherwise;
}

long to_connect() { return seconds("HCCL_CONNECT_TIMEOUT", kToConnect); }

// A configuration of an older header is shorter.
bool has(const HcclCommConfig* config, size_t end_of_field) {
  size_t size = 0;
  if (config) std::memcpy(&size, config->reserved, sizeof size);
  return size >= end_of_field;
}

long to_run(const HcclCommConfig* config) {
  bool set = has(config, offsetof(HcclCommConfig, hcclExecTimeOut) + sizeof config->hcclExecTimeOut) &&
             config->hcclExecTimeOut != HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET;
  return set ? config->hcclExecTimeOut : seconds("HCCL_EXEC_TIMEOUT", kToRun);
}

std::string name_in(const HcclCommConfig* config, const std::string& otherwise) {
  if (!has(config, offsetof(HcclCommConfig, hcclCommName) + sizeof config->hcclCommName)) return otherwise;
  std::string name(config->hcclCommName, strnlen(config->hcclCommName, sizeof config->hcclCommName - 1));
  return name.empty() ? otherwise : name;
}

HcclComm handle_of(std::shared_ptr<Communicator> communicator) {
  return new std::shared_ptr<Communicator>(std::move(communicator));
}

HcclResult report(const Failure& failure, uint32_t rank, uint32_t ranks) {
  return static_cast<HcclResult>(
      fail(failure.error, "HCCL: no communicator for rank %u of %u: %s", rank, ranks, failure.why.c_str()));
}

HcclResult join(uint32_t ranks, const HcclRootInfo* info, uint32_t rank, const HcclCommConfig* config, HcclComm* made) {
  if (!info || !made) return HCCL_E_PTR;
  try {
    RootInfo root;
    std::memcpy(&root, info->internal, sizeof root);
    auto door = std::make_shared<Door>();
    std::vector<uint16_t> ports = meet(root, rank, ranks, door->port(), to_connect());
    *made = handle_of(std::make_shared<Communicator>(name_in(config, root.name), root.name, door, ports, rank,
                                                     to_connect(), to_run(config)));
    return HCCL_SUCCESS;
  } catch (const Failure& failure) {
    return report(failure, rank, ranks);
  }
}

bool same(const Label& one, const Label& other) {
  return one.kind == other.kind && one.type == other.type && one.op == other.op && one.root == other.root &&
         one.count == other.count;
}

}  // namespace

std::string Label::text() const {
  constexpr const char* names[] = {"all_reduce", "reduce",       "reduce_scatter", "reduce_scatter_v", "broadcast",
                                   "scatter",    "all_gather",   "all_gather_v",   "all_to_all",
                                   "all_to_all_v", "batch",      "send",           "recv",             "barrier"};
  std::string text = kind <= Kind::kBarrier ? names[static_cast<uint32_t>(kind)] : "no call of HCCL";
  if (kind == Kind::kBarrier) return text;
  text += " of " + std::to_string(count) + " " + name_of(type);
  if (op != HCCL_REDUCE_RESERVED) text += std::string(", ") + name_of(op);
  if (kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kScatter)
    text += ", root " + std::to_string(root);
  return text;
}

Communicator::Communicator(std::string name, std::string key, std::shared_ptr<Door> door, std::vector<uint16_t> ports,
                           uint32_t rank, long seconds_to_connect, long seconds_to_run)
    : name(std::move(name)), rank(rank), key_(std::move(key)), door_(std::move(door)), ports_(std::move(ports)),
      seconds_to_run_(seconds_to_run) {
  links_ = connect_all(key_, *door_, ports_, rank, in(seconds_to_connect));
}

Communicator::Communicator(std::string name, uint32_t rank, std::vector<Socket> links, long seconds_to_run)
    : name(std::move(name)), rank(rank), seconds_to_run_(seconds_to_run), links_(std::move(links)) {}

void Communicator::run(const Label& label, const std::function<void(Communicator&)>& work) {
  std::lock_guard<std::mutex> guard(running_);
  if (!trouble().error) {
    try {
      return work(*this);
    } catch (const Failure& failure) {
      std::string limit = failure.error == HCCL_E_TIMEOUT
                              ? " within " + std::to_string(seconds_to_run_) + " s (HCCL_EXEC_TIMEOUT)"
                              : "";
      give_up(failure.error, label.text() + ": " + failure.why + limit);
    }
  }
  Trouble found = trouble();
  task_failed(found.error == HCCL_E_TIMEOUT ? kTaskTimedOut : kTaskException, found.why);
}

void Communicator::give_up(int error, const std::string& why) {
  std::lock_guard<std::mutex> guard(lock_);
  std::string who = "HCCL: rank " + std::to_string(rank) + " of " + std::to_string(ranks()) + " of " + name;
  if (!trouble_.error) trouble_ = {error, who + ": " + why};
  for (const Socket& link : links_) link.hang_up();
}

Trouble Communicator::trouble() {
  std::lock_guard<std::mutex> guard(lock_);
  return trouble_;
}

std::shared_ptr<Communicator> Communicator::part(std::string name, uint64_t id, const std::vector<uint32_t>& members,
                                                 uint32_t rank, long seconds_to_connect, long seconds_to_run) {
  if (!door_) throw Failure{HCCL_E_NOT_SUPPORT, "HcclCommInitAll's communicators have no parts"};
  std::vector<uint16_t> ports;
  for (uint32_t member : members) {
    if (member >= ranks()) throw Failure{HCCL_E_PARA, "there is no rank " + std::to_string(member)};
    ports.push_back(ports_[member]);
  }
  if (rank >= members.size() || members[rank] != this->rank)
    throw Failure{HCCL_E_PARA, "rank " + std::to_string(this->rank) + " is not number " + std::to_string(rank)};
  int made_before;
  {
    std::lock_guard<std::mutex> guard(lock_);
    made_before = parts_[id]++;
  }
  std::string key = key_ + "/" + std::to_string(id) + "." + std::to_string(made_before);
  return std::make_shared<Communicator>(std::move(name), key, door_, ports, rank, seconds_to_connect, seconds_to_run);
}

void Exchange::send(uint32_t peer, const void* data, size_t bytes, const Label& label) {
  peers_[peer].outgoing.push_back({const_cast<void*>(data), bytes, label, label});
}

void Exchange::receive(uint32_t peer, void* data, size_t bytes, const Label& label) {
  peers_[peer].incoming.push_back({data, bytes, label, label});
}

void Exchange::go() {
  std::vector<Traffic> traffic(peers_.size());
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (peer == on_.rank) continue;
    for (Parcel& parcel : peers_[peer].outgoing) {
      traffic[peer].outgoing.push_back({&parcel.label, sizeof parcel.label});
      traffic[peer].outgoing.push_back({parcel.data, parcel.bytes});
    }
    for (Parcel& parcel : peers_[peer].incoming) {
      auto check = [&parcel] {
        if (same(parcel.arrived, parcel.label)) return;
        throw Failure{HCCL_E_PARA, "is in " + parcel.arrived.text() + ", which is another call"};
      };
      traffic[peer].incoming.push_back({&parcel.arrived, sizeof parcel.arrived, check});
      traffic[peer].incoming.push_back({parcel.data, parcel.bytes});
    }
  }
  exchange(on_.links_, traffic, in(on_.seconds_to_run_));
  Peer& self = peers_[on_.rank];
  if (self.outgoing.size() != self.incoming.size())
    throw Failure{HCCL_E_PARA, "it sends to itself " + std::to_string(self.outgoing.size()) + " times and receives " +
                                   std::to_string(self.incoming.size()) + " times"};
  for (size_t i = 0; i < self.outgoing.size(); ++i) {
    if (!same(self.outgoing[i].label, self.incoming[i].label))
      throw Failure{HCCL_E_PARA, "what it sends to itself is not what it receives"};
    if (self.incoming[i].bytes) std::memmove(self.incoming[i].data, self.outgoing[i].data, self.incoming[i].bytes);
  }
}

}  // namespace standin

using namespace standin;

extern "C" {

HcclResult HcclGetRootInfo(HcclRootInfo* info) {
  if (!info) return HCCL_E_PTR;
  try {
    RootInfo root = open_meeting(to_connect());
    static_assert(sizeof root <= sizeof info->internal, "a root info has to fit into HCCL's");
    std::memset(info->internal, 0, sizeof info->internal);
    std::memcpy(info->internal, &root, sizeof root);
    return HCCL_SUCCESS;
  } catch (const Failure& failure) {
    return static_cast<HcclResult>(fail(failure.error, "HCCL: no root info: %s", failure.why.c_str()));
  }
}

HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo* info, uint32_t rank, HcclComm* made) {
  return join(ranks, info, rank, nullptr, made);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo* info, uint32_t rank,
                                      const HcclCommConfig* config, HcclComm* made) {
  return join(ranks, info, rank, config, made);
}

HcclResult HcclCreateSubCommConfig(HcclComm* whole, uint32_t count, uint32_t* members, uint64_t id, uint32_t rank,
                                   HcclCommConfig* config, HcclComm* made) {
  if (!whole || !*whole || !made) return HCCL_E_PTR;
  *made = nullptr;
  if (!members || !count) return HCCL_SUCCESS;  // as a rank outside of it calls it
  try {
    std::string name = name_in(config, communicator_of(*whole)->name + "_sub" + std::to_string(id));
    std::vector<uint32_t> of(members, members + count);
    *made = handle_of(communicator_of(*whole)->part(name, id, of, rank, to_connect(), to_run(config)));
    return HCCL_SUCCESS;
  } catch (const Failure& failure) {
    return report(failure, rank, count);
  }
}

// One communicator for each of this process's devices.
HcclResult HcclCommInitAll(uint32_t count, int32_t* devices, HcclComm* made) {
  if (!devices || !made) return HCCL_E_PTR;
  try {
    std::vector<std::vector<Socket>> links(count);
    for (auto& each : links) each.resize(count);
    for (uint32_t one = 0; one < count; ++one)
      for (uint32_t other = 0; other < one; ++other) make_pair(&links[one][other], &links[other][one]);
    for (uint32_t rank = 0; rank < count; ++rank)
      made[rank] =
          handle_of(std::make_shared<Communicator>("all_devices", rank, std::move(links[rank]), to_run(nullptr)));
    return HCCL_SUCCESS;
  } catch (const Failure& failure) {
    return report(failure, 0, count);
  }
}

// Calls that run are broken off: torch_npu waits for its streams first where it does not want that.
HcclResult HcclCommDestroy(HcclComm handle) {
  if (!handle) return HCCL_E_PTR;
  communicator_of(handle)->give_up(HCCL_E_UNAVAIL, "the communicator was destroyed");
  delete &communicator_of(handle);
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommAsyncError(HcclComm handle, HcclResult* error) {
  if (!handle || !error) return HCCL_E_PTR;
  Trouble trouble = communicator_of(handle)->trouble();
  *error = static_cast<HcclResult>(trouble.error ? fail(trouble.error, "%s", trouble.why.c_str()) : HCCL_SUCCESS);
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommName(HcclComm handle, char* name) {
  if (!handle || !name) return HCCL_E_PTR;
  std::snprintf(name, COMM_NAME_MAX_LENGTH, "%s", communicator_of(handle)->name.c_str());
  return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm handle, uint32_t* ranks) {
  if (!handle || !ranks) return HCCL_E_PTR;
  return *ranks = communicator_of(handle)->ranks(), HCCL_SUCCESS;
}

HcclResult HcclGetRankId(HcclComm handle, uint32_t* rank) {
  if (!handle || !rank) return HCCL_E_PTR;
  return *rank = communicator_of(handle)->rank, HCCL_SUCCESS;
}

uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_RESERVED; }

// The order of reductions is always the same here.
HcclResult HcclSetConfig(HcclConfig, HcclConfigValue) { return HCCL_SUCCESS; }

const char* HcclGetErrorString(HcclResult code) {
  constexpr const char* names[] = {
      "no error",        "parameter error",       "empty pointer",          "memory error",        "internal error",
      "not supported",   "not found",             "unavailable",            "system call error",   "time-out",
      "no file",         "TCP connection failed", "RoCE connection failed", "TCP transfer",        "RoCE transfer",
      "runtime error",   "driver error",          "profiling error",        "CCE error",           "network error",
      "try again",       "remote error",          "suspending",             "retry failed",        "out of memory"};
  return code >= 0 && code < HCCL_E_RESERVED ? names[code] : "unknown error";
}

}  // extern "C"
