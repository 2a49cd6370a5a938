// How the ranks of a communicator find each other, and connect each with each.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "wire.h"

namespace standin {

// Where a process takes connections for its rank in a communicator, and in those made of that one.
class Door {
 public:
  Door();
  uint16_t port() const { return port_; }
  // The connection with which `rank` announced itself for `name`. HCCL_E_TIMEOUT if it has not come by `until`.
  Socket take(const std::string& name, uint32_t rank, Moment until);

 private:
  std::mutex lock_;
  uint16_t port_;
  Socket listener_;
  std::map<std::pair<std::string, uint32_t>, Socket> arrived_;
};

// What a root writes into its HcclRootInfo: plain data, which others read in other processes.
struct RootInfo {
  char magic[8];
  uint16_t port;
  char name[48];  // of the communicator, unlike all others
};

// Opens the place where the ranks of one communicator announce themselves. A thread serves it until all have come, or
// `seconds` have passed.
RootInfo open_meeting(long seconds);

// Announces this rank at the root. The result is each rank's port. Failures say which ranks did not come.
std::vector<uint16_t> meet(const RootInfo& root, uint32_t rank, uint32_t ranks, uint16_t port, long seconds);

// A link for each rank but one's own; the door of rank i is at `ports[i]`.
std::vector<Socket> connect_all(const std::string& name, Door& door, const std::vector<uint16_t>& ports, uint32_t rank,
                                Moment until);

}  // namespace standin
