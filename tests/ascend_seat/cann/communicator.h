// Communicators of HCCL: ranks that have met, what they exchange, and what becomes of a failure.
#pragma once

#include "acl/acl.h"
#include "meeting.h"
#include "reductions.h"
#include "standin.h"

namespace standin {

enum class Kind : uint32_t {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kReduceScatterV,
  kBroadcast,
  kScatter,
  kAllGather,
  kAllGatherV,
  kAllToAll,
  kAllToAllV,
  kBatch,
  kSend,
  kReady,  // the answer to a receiver that kSend waits for
  kBarrier,
};

// What goes in front of all data: both sides have to be in the same call.
struct Label {
  Kind kind;
  HcclDataType type = HCCL_DATA_TYPE_INT8;
  HcclReduceOp op = HCCL_REDUCE_RESERVED;
  uint32_t root = 0;   // for calls with one; else 0
  uint64_t count = 0;  // elements, as the call counts them; of what is passed in calls with counts of their own
  std::string text() const;
};

class Communicator {
 public:
  // Connects with the others. Throws Failure.
  Communicator(std::string name, std::string key, std::shared_ptr<Door> door, std::vector<uint16_t> ports,
               uint32_t rank, long seconds_to_connect, long seconds_to_run);
  // One whose links are there.
  Communicator(std::string name, uint32_t rank, std::vector<Socket> links, long seconds_to_run);

  // As a task of a stream: `work`, which is the call `label`. Its failure is this communicator's end, and the stream's
  // trouble.
  void run(const Label& label, const std::function<void(Communicator&)>& work);
  // The end: whoever waits for a peer, here or there, waits no longer.
  void give_up(int error, const std::string& why);
  Trouble trouble();

  // Of `members`, ranks of this one, of which this process is number `rank`.
  std::shared_ptr<Communicator> part(std::string name, uint64_t id, const std::vector<uint32_t>& members, uint32_t rank,
                                     long seconds_to_connect, long seconds_to_run);

  uint32_t ranks() const { return static_cast<uint32_t>(links_.size()); }
  const std::string name;
  const uint32_t rank;

 private:
  friend class Exchange;
  const std::string key_;
  const std::shared_ptr<Door> door_;
  const std::vector<uint16_t> ports_;
  const long seconds_to_run_;
  std::vector<Socket> links_;
  std::mutex running_;  // one call at a time, in the order of the stream
  std::mutex lock_;     // of what follows
  Trouble trouble_;
  std::map<uint64_t, int> parts_;  // how many were made by each number
};

// What one step of a call sends and receives; each piece goes behind a label, and nothing moves before `go`.
class Exchange {
 public:
  Exchange(Communicator& communicator, const Label& label) : on_(communicator), label_(label), peers_(on_.ranks()) {}
  void send(uint32_t peer, const void* data, size_t bytes) { send(peer, data, bytes, label_); }
  void receive(uint32_t peer, void* data, size_t bytes) { receive(peer, data, bytes, label_); }
  void send(uint32_t peer, const void* data, size_t bytes, const Label& label);
  void receive(uint32_t peer, void* data, size_t bytes, const Label& label);
  // Throws Failure: of exchange(), or HCCL_E_PARA if a peer is in another call.
  void go();

 private:
  struct Parcel {
    void* data;
    size_t bytes;
    Label label;
    Label arrived;
  };
  Communicator& on_;
  const Label label_;
  struct Peer {
    std::deque<Parcel> outgoing, incoming;  // a deque: their addresses are passed on
  };
  std::vector<Peer> peers_;
};

// The communicator behind a handle, which is shared with the tasks of streams.
inline std::shared_ptr<Communicator>& communicator_of(HcclComm handle) {
  return *static_cast<std::shared_ptr<Communicator>*>(handle);
}

}  // namespace standin
