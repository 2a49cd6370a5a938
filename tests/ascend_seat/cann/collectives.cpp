// HCCL's collectives, as tasks of the stream that they are called with. All of them send directly from each rank to
// each: there are few ranks on one host. Reductions go in the order of ranks, so that all ranks have the same result.
#include <algorithm>
#include <cstring>

#include "communicator.h"
#include "third_party/hccl/inc/hccl/hccl.h"

namespace standin {
namespace {

using Work = std::function<void(Communicator&)>;

constexpr const char* kOutside = "what it moves leaves its block of device memory";

// Memory that a call names.
struct Range {
  const void* address;
  uint64_t count;
};

// Sends and receives of one communicator and stream, between HcclGroupStart and HcclGroupEnd.
struct Grouped {
  HcclComm handle;
  aclrtStream stream;
  std::vector<HcclSendRecvItem> items;
};
thread_local int group_depth = 0;
thread_local std::vector<Grouped> grouped;

HcclResult refuse(const Label& label, const char* what) {
  return static_cast<HcclResult>(fail(HCCL_E_PARA, "HCCL: %s: %s", label.text().c_str(), what));
}

// Looks at what the call was given, and queues it.
HcclResult queue(HcclComm handle, aclrtStream stream, const Label& label, const std::vector<Range>& memory, Work work) {
  if (!handle) return HCCL_E_PTR;
  size_t size = size_of(label.type);
  if (!size) return refuse(label, "the type is not known");
  if (label.op != HCCL_REDUCE_RESERVED && !can_reduce(label.type, label.op))
    return static_cast<HcclResult>(fail(HCCL_E_NOT_SUPPORT, "HCCL: %s is not supported", label.text().c_str()));
  std::shared_ptr<Communicator> communicator = communicator_of(handle);
  if (label.root >= communicator->ranks()) return refuse(label, "there is no such rank");
  for (const Range& range : memory)
    if (range.count && !is_device(range.address, range.count * size)) return refuse(label, kOutside);
  stream_of(stream).push([communicator, label, work = std::move(work)] { communicator->run(label, work); });
  return HCCL_SUCCESS;
}

char* at(const void* base, uint64_t element, const Label& label) {
  return static_cast<char*>(const_cast<void*>(base)) + element * size_of(label.type);
}

// Where part `index` of `count` elements begins that are cut into `parts`.
uint64_t cut(uint64_t count, uint32_t index, uint32_t parts) {
  return count / parts * index + count % parts * index / parts;
}

// Sends a part of `data` to each rank and reduces what comes for this one. Part i is [first(i), first(i) + length(i)).
template <typename First, typename Length>
std::vector<char> reduced(Communicator& on, const Label& label, const void* data, First first, Length length) {
  size_t size = size_of(label.type), bytes = length(on.rank) * size;
  std::vector<std::vector<char>> parts(on.ranks(), std::vector<char>(bytes));
  Exchange step(on, label);
  for (uint32_t peer = 0; peer < on.ranks(); ++peer) {
    step.send(peer, at(data, first(peer), label), length(peer) * size);
    step.receive(peer, parts[peer].data(), bytes);
  }
  step.go();
  for (uint32_t peer = 1; peer < on.ranks(); ++peer)
    reduce_into(parts[0].data(), parts[peer].data(), length(on.rank), label.type, label.op);
  return std::move(parts[0]);
}

// Sends `count` elements at `data` to each rank, and puts those of rank i at `into(i)`.
template <typename Into, typename Length>
void gather(Communicator& on, const Label& label, const void* data, uint64_t count, Into into, Length length) {
  size_t size = size_of(label.type);
  Exchange step(on, label);
  for (uint32_t peer = 0; peer < on.ranks(); ++peer) {
    step.send(peer, data, count * size);
    step.receive(peer, into(peer), length(peer) * size);
  }
  step.go();
}

std::vector<uint64_t> numbers(const void* values, uint32_t count) {
  auto first = static_cast<const uint64_t*>(values);
  return {first, first + count};
}

// What HcclAlltoAllV and its relatives move: counts and places, in elements, for each rank.
struct Parts {
  std::vector<uint64_t> counts, places;
  Range range(const void* base) const {
    uint64_t end = 0;
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i]) end = std::max(end, places[i] + counts[i]);
    return {base, end};
  }
};

Parts parts_of(HcclComm handle, const void* counts, const void* places) {
  uint32_t ranks = communicator_of(handle)->ranks();
  return {numbers(counts, ranks), numbers(places, ranks)};
}

HcclResult all_to_all(const void* from, const Parts& sent, const void* to, const Parts& received, Label label,
                      HcclComm handle, aclrtStream stream) {
  auto work = [=](Communicator& on) {
    Exchange step(on, label);
    for (uint32_t peer = 0; peer < on.ranks(); ++peer) {
      Label out = label, in = label;
      out.count = sent.counts[peer], in.count = received.counts[peer];
      step.send(peer, at(from, sent.places[peer], label), sent.counts[peer] * size_of(label.type), out);
      step.receive(peer, at(to, received.places[peer], label), received.counts[peer] * size_of(label.type), in);
    }
    step.go();
  };
  return queue(handle, stream, label, {sent.range(from), received.range(to)}, work);
}

Parts equal_parts(uint32_t ranks, uint64_t count) {
  Parts parts;
  for (uint32_t rank = 0; rank < ranks; ++rank) parts.counts.push_back(count), parts.places.push_back(rank * count);
  return parts;
}

// Sends and receives at once, in the order of `items` between each two ranks.
HcclResult batch(HcclComm handle, aclrtStream stream, std::vector<HcclSendRecvItem> items) {
  if (!handle) return HCCL_E_PTR;
  Label whole{Kind::kBatch, HCCL_DATA_TYPE_INT8};
  whole.count = items.size();
  std::vector<Label> labels;
  for (const HcclSendRecvItem& item : items) {
    Label label{Kind::kBatch, item.dataType};
    label.count = item.count;
    labels.push_back(label);
    size_t bytes = item.count * size_of(item.dataType);
    if (!size_of(item.dataType)) return refuse(label, "the type is not known");
    if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV) return refuse(label, "no send and no recv");
    if (item.remoteRank >= communicator_of(handle)->ranks()) return refuse(label, "there is no such rank");
    if (bytes && !is_device(item.buf, bytes)) return refuse(label, kOutside);
  }
  return queue(handle, stream, whole, {}, [=](Communicator& on) {
    Exchange step(on, whole);
    for (size_t i = 0; i < items.size(); ++i) {
      size_t bytes = items[i].count * size_of(items[i].dataType);
      if (items[i].sendRecvType == HCCL_SEND) step.send(items[i].remoteRank, items[i].buf, bytes, labels[i]);
      else step.receive(items[i].remoteRank, items[i].buf, bytes, labels[i]);
    }
    step.go();
  });
}

// A send begins once its receiver has come, as on the chip: two ranks that both send first wait for each other.
HcclResult point_to_point(bool sends, void* data, uint64_t count, HcclDataType type, uint32_t peer, HcclComm handle,
                          aclrtStream stream) {
  if (!handle) return HCCL_E_PTR;
  if (group_depth) {
    auto mine = [&](const Grouped& each) { return each.handle == handle && each.stream == stream; };
    auto found = std::find_if(grouped.begin(), grouped.end(), mine);
    if (found == grouped.end()) found = grouped.insert(found, Grouped{handle, stream, {}});
    found->items.push_back({sends ? HCCL_SEND : HCCL_RECV, data, count, type, peer});
    return HCCL_SUCCESS;
  }
  Label label{Kind::kSend, type}, ready{Kind::kReady, type};
  label.count = ready.count = count;
  if (peer >= communicator_of(handle)->ranks() || peer == communicator_of(handle)->rank)
    return refuse(sends ? label : ready, "the other rank is none, or this one");
  return queue(handle, stream, sends ? label : ready, {{data, count}}, [=](Communicator& on) {
    size_t bytes = count * size_of(type);
    Exchange first(on, ready), second(on, label);
    if (sends) first.receive(peer, nullptr, 0), second.send(peer, data, bytes);
    else first.send(peer, nullptr, 0), second.receive(peer, data, bytes);
    first.go();
    second.go();
  });
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

HcclResult HcclAllReduce(void* from, void* to, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm handle,
                         aclrtStream stream) {
  Label label{Kind::kAllReduce, type, op};
  label.count = count;
  return queue(handle, stream, label, {{from, count}, {to, count}}, [=](Communicator& on) {
    auto first = [&](uint32_t rank) { return cut(count, rank, on.ranks()); };
    auto length = [&](uint32_t rank) { return first(rank + 1) - first(rank); };
    std::vector<char> part = reduced(on, label, from, first, length);
    gather(on, label, part.data(), length(on.rank), [&](uint32_t rank) { return at(to, first(rank), label); }, length);
  });
}

HcclResult HcclReduce(void* from, void* to, uint64_t count, HcclDataType type, HcclReduceOp op, uint32_t root,
                      HcclComm handle, aclrtStream stream) {
  Label label{Kind::kReduce, type, op, root, count};
  return queue(handle, stream, label, {{from, count}, {to, count}}, [=](Communicator& on) {
    auto length = [&](uint32_t rank) { return rank == root ? count : 0; };
    std::vector<char> all = reduced(on, label, from, [](uint32_t) { return 0; }, length);
    if (on.rank == root && count) std::memcpy(to, all.data(), all.size());
  });
}

HcclResult HcclReduceScatter(void* from, void* to, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm handle,
                             aclrtStream stream) {
  if (!handle) return HCCL_E_PTR;
  Label label{Kind::kReduceScatter, type, op};
  label.count = count;
  uint64_t all = count * communicator_of(handle)->ranks();
  return queue(handle, stream, label, {{from, all}, {to, count}}, [=](Communicator& on) {
    auto first = [&](uint32_t rank) { return rank * count; };
    std::vector<char> part = reduced(on, label, from, first, [&](uint32_t) { return count; });
    if (count) std::memcpy(to, part.data(), part.size());
  });
}

HcclResult HcclReduceScatterV(void* from, const void* counts, const void* places, void* to, uint64_t count,
                              HcclDataType type, HcclReduceOp op, HcclComm handle, aclrtStream stream) {
  if (!handle) return HCCL_E_PTR;
  Label label{Kind::kReduceScatterV, type, op};
  Parts parts = parts_of(handle, counts, places);
  for (uint64_t each : parts.counts) label.count += each;
  if (parts.counts[communicator_of(handle)->rank] != count) return refuse(label, "two counts for this rank");
  return queue(handle, stream, label, {parts.range(from), {to, count}}, [=](Communicator& on) {
    auto first = [&](uint32_t rank) { return parts.places[rank]; };
    std::vector<char> part = reduced(on, label, from, first, [&](uint32_t rank) { return parts.counts[rank]; });
    if (count) std::memcpy(to, part.data(), part.size());
  });
}

HcclResult HcclBroadcast(void* data, uint64_t count, HcclDataType type, uint32_t root, HcclComm handle,
                         aclrtStream stream) {
  Label label{Kind::kBroadcast, type, HCCL_REDUCE_RESERVED, root, count};
  return queue(handle, stream, label, {{data, count}}, [=](Communicator& on) {
    Exchange step(on, label);
    size_t bytes = count * size_of(type);
    for (uint32_t peer = 0; peer < on.ranks(); ++peer)
      if (on.rank == root && peer != root) step.send(peer, data, bytes);
    if (on.rank != root) step.receive(root, data, bytes);
    step.go();
  });
}

HcclResult HcclScatter(void* from, void* to, uint64_t count, HcclDataType type, uint32_t root, HcclComm handle,
                       aclrtStream stream) {
  if (!handle) return HCCL_E_PTR;
  Label label{Kind::kScatter, type, HCCL_REDUCE_RESERVED, root, count};
  bool is_root = communicator_of(handle)->rank == root;
  uint64_t all = is_root ? count * communicator_of(handle)->ranks() : 0;
  return queue(handle, stream, label, {{from, all}, {to, count}}, [=](Communicator& on) {
    Exchange step(on, label);
    size_t bytes = count * size_of(type);
    for (uint32_t peer = 0; peer < on.ranks(); ++peer)
      if (is_root) step.send(peer, at(from, peer * count, label), bytes);
    step.receive(root, to, bytes);
    step.go();
  });
}

HcclResult HcclAllGather(void* from, void* to, uint64_t count, HcclDataType type, HcclComm handle, aclrtStream stream) {
  if (!handle) return HCCL_E_PTR;
  Label label{Kind::kAllGather, type};
  label.count = count;
  uint64_t all = count * communicator_of(handle)->ranks();
  return queue(handle, stream, label, {{from, count}, {to, all}}, [=](Communicator& on) {
    auto into = [&](uint32_t rank) { return at(to, rank * count, label); };
    gather(on, label, from, count, into, [&](uint32_t) { return count; });
  });
}

HcclResult HcclAllGatherV(void* from, uint64_t count, void* to, const void* counts, const void* places,
                          HcclDataType type, HcclComm handle, aclrtStream stream) {
  if (!handle) return HCCL_E_PTR;
  Label label{Kind::kAllGatherV, type};
  Parts parts = parts_of(handle, counts, places);
  for (uint64_t each : parts.counts) label.count += each;
  if (parts.counts[communicator_of(handle)->rank] != count) return refuse(label, "two counts for this rank");
  return queue(handle, stream, label, {{from, count}, parts.range(to)}, [=](Communicator& on) {
    auto into = [&](uint32_t rank) { return at(to, parts.places[rank], label); };
    gather(on, label, from, count, into, [&](uint32_t rank) { return parts.counts[rank]; });
  });
}

HcclResult HcclAlltoAll(const void* from, uint64_t sent, HcclDataType type, const void* to, uint64_t received,
                        HcclDataType received_type, HcclComm handle, aclrtStream stream) {
  if (!handle) return HCCL_E_PTR;
  Label label{Kind::kAllToAll, type};
  label.count = sent;
  if (type != received_type) return refuse(label, "two types");
  uint32_t ranks = communicator_of(handle)->ranks();
  return all_to_all(from, equal_parts(ranks, sent), to, equal_parts(ranks, received), label, handle, stream);
}

HcclResult HcclAlltoAllV(const void* from, const void* counts, const void* places, HcclDataType type, const void* to,
                         const void* received_counts, const void* received_places, HcclDataType received_type,
                         HcclComm handle, aclrtStream stream) {
  if (!handle) return HCCL_E_PTR;
  Label label{Kind::kAllToAllV, type};
  if (type != received_type) return refuse(label, "two types");
  Parts sent = parts_of(handle, counts, places), received = parts_of(handle, received_counts, received_places);
  for (uint64_t each : sent.counts) label.count += each;
  return all_to_all(from, sent, to, received, label, handle, stream);
}

HcclResult HcclBarrier(HcclComm handle, aclrtStream stream) {
  Label label{Kind::kBarrier};
  return queue(handle, stream, label, {}, [=](Communicator& on) {
    auto nothing = [](uint32_t) { return nullptr; };
    gather(on, label, nullptr, 0, nothing, [](uint32_t) { return 0; });
  });
}

HcclResult HcclSend(void* data, uint64_t count, HcclDataType type, uint32_t peer, HcclComm handle, aclrtStream stream) {
  return point_to_point(true, data, count, type, peer, handle, stream);
}

HcclResult HcclRecv(void* data, uint64_t count, HcclDataType type, uint32_t peer, HcclComm handle, aclrtStream stream) {
  return point_to_point(false, data, count, type, peer, handle, stream);
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem* items, uint32_t count, HcclComm handle, aclrtStream stream) {
  if (!items) return HCCL_E_PTR;
  return batch(handle, stream, {items, items + count});
}

HcclResult HcclGroupStart() { return ++group_depth, HCCL_SUCCESS; }

HcclResult HcclGroupEnd() {
  if (!group_depth) return static_cast<HcclResult>(fail(HCCL_E_PARA, "HCCL: the end of a group that has not begun"));
  if (--group_depth) return HCCL_SUCCESS;
  std::vector<Grouped> ended = std::move(grouped);
  grouped.clear();
  HcclResult result = HCCL_SUCCESS;
  for (const Grouped& each : ended) {
    HcclResult error = batch(each.handle, each.stream, each.items);
    if (!result) result = error;
  }
  return result;
}

}  // extern "C"
