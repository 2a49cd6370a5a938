// The root of a communicator gathers the ports of all ranks and tells them to all; then each connects with each.
#include "meeting.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

#include "third_party/hccl/inc/hccl/hccl_types.h"

namespace standin {
namespace {

constexpr char kMagic[8] = "standin";
constexpr long kToSpeak = 10;  // seconds that a connection has to say who it is
constexpr long kToAnswer = 10;  // seconds that the root's answer may take beyond its own limit

struct Registration {
  char name[48];
  uint32_t rank, ranks;
  uint16_t port;
};

std::string new_name() {
  std::random_device numbers;
  char name[sizeof(RootInfo::name)];
  std::snprintf(name, sizeof name, "%d_%08x%08x", static_cast<int>(getpid()), numbers(), numbers());
  return name;
}

// Why `wanted` cannot be one of the communicator; empty if it can.
std::string refusal(const Registration& wanted, uint32_t ranks, const std::map<uint32_t, uint16_t>& ports) {
  if (wanted.ranks != ranks)
    return "one rank says that there are " + std::to_string(ranks) + " of them, rank " + std::to_string(wanted.rank) +
           " that there are " + std::to_string(wanted.ranks);
  if (wanted.rank >= ranks) return "there is no rank " + std::to_string(wanted.rank) + " of " + std::to_string(ranks);
  if (ports.count(wanted.rank)) return "two processes are rank " + std::to_string(wanted.rank);
  return "";
}

std::string missing_ranks(uint32_t ranks, const std::map<uint32_t, uint16_t>& ports, long seconds) {
  std::string names;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (!ports.count(rank)) names += (names.empty() ? "" : ", ") + std::to_string(rank);
  return "rank " + names + " of " + std::to_string(ranks) + " did not come within " + std::to_string(seconds) +
         " s (HCCL_CONNECT_TIMEOUT)";
}

// Gathers the registrations and answers all: a text that is empty or says what is wrong, then the ports.
void serve(const Socket& listener, const std::string& name, long seconds) {
  Moment until = in(seconds);
  std::vector<Socket> sockets;
  std::map<uint32_t, uint16_t> ports;
  uint32_t ranks = 0;
  std::string wrong;
  while (wrong.empty() && (!ranks || ports.size() < ranks)) {
    Socket socket = next_arrival(listener, until);
    if (!socket) {
      wrong = missing_ranks(ranks, ports, seconds);
      break;
    }
    Registration one;
    try {
      receive(socket, &one, sizeof one, std::min(until, in(kToSpeak)));
    } catch (const Failure&) {
      continue;  // nobody of ours, or one that has ended: it is missed in the end
    }
    if (std::strncmp(one.name, name.c_str(), sizeof one.name)) continue;
    if (!ranks) ranks = one.ranks;
    wrong = refusal(one, ranks, ports);
    ports[one.rank] = one.port;
    sockets.push_back(std::move(socket));
  }
  std::string all;
  for (const auto& [rank, port] : ports) all.append(reinterpret_cast<const char*>(&port), sizeof port);
  for (const Socket& socket : sockets) {
    try {
      send(socket, wrong, in(kToAnswer));
      if (wrong.empty()) send(socket, all, in(kToAnswer));
    } catch (const Failure&) {
      continue;  // the others notice when they connect with it
    }
  }
}

}  // namespace

Door::Door() : listener_(listener(&port_)) {}

Socket Door::take(const std::string& name, uint32_t rank, Moment until) {
  std::lock_guard<std::mutex> guard(lock_);
  auto wanted = std::make_pair(name, rank);
  while (!arrived_.count(wanted)) {
    Socket socket = next_arrival(listener_, until);
    if (!socket) throw Failure{HCCL_E_TIMEOUT, "rank " + std::to_string(rank) + " did not connect in time"};
    try {
      std::string whose = receive_text(socket, std::min(until, in(kToSpeak)));
      uint32_t who;
      receive(socket, &who, sizeof who, std::min(until, in(kToSpeak)));
      arrived_[{whose, who}] = std::move(socket);
    } catch (const Failure&) {
      continue;  // as in serve()
    }
  }
  Socket found = std::move(arrived_[wanted]);
  arrived_.erase(wanted);
  return found;
}

RootInfo open_meeting(long seconds) {
  RootInfo root{};
  std::memcpy(root.magic, kMagic, sizeof root.magic);
  std::string name = new_name();
  std::strcpy(root.name, name.c_str());
  auto place = std::make_shared<Socket>(listener(&root.port));
  std::thread([place, name, seconds] { serve(*place, name, seconds); }).detach();
  return root;
}

std::vector<uint16_t> meet(const RootInfo& root, uint32_t rank, uint32_t ranks, uint16_t port, long seconds) {
  if (std::memcmp(root.magic, kMagic, sizeof root.magic))
    throw Failure{HCCL_E_PARA, "the root info is not of this HCCL"};
  Moment until = in(seconds + kToAnswer);
  Socket socket = connection_to(root.port, until);
  Registration one{};
  std::memcpy(one.name, root.name, sizeof one.name);
  one.rank = rank, one.ranks = ranks, one.port = port;
  std::string wrong, all;
  try {
    send(socket, &one, sizeof one, until);
    wrong = receive_text(socket, until);
    if (wrong.empty()) all = receive_text(socket, until);
  } catch (const Failure& failure) {
    throw Failure{failure.error, "the root " + failure.why};
  }
  if (!wrong.empty()) throw Failure{HCCL_E_TIMEOUT, wrong};
  std::vector<uint16_t> ports(all.size() / sizeof port);
  std::memcpy(ports.data(), all.data(), ports.size() * sizeof port);
  return ports;
}

std::vector<Socket> connect_all(const std::string& name, Door& door, const std::vector<uint16_t>& ports, uint32_t rank,
                                Moment until) {
  std::vector<Socket> links(ports.size());
  for (uint32_t peer = 0; peer < rank; ++peer) {
    links[peer] = connection_to(ports[peer], until);
    send(links[peer], name, until);
    send(links[peer], &rank, sizeof rank, until);
  }
  for (uint32_t peer = rank + 1; peer < ports.size(); ++peer) links[peer] = door.take(name, peer, until);
  return links;
}

}  // namespace standin
