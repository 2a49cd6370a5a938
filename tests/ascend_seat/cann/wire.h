// Bytes between the processes of one host, over TCP on its loopback: what carries HCCL's collectives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace standin {

// Thrown by all that is here: an error of HCCL's, and what happened.
struct Failure {
  int error;
  std::string why;
};

using Moment = std::chrono::steady_clock::time_point;
// `seconds` from now; 0 for never.
Moment in(long seconds);

// A socket that does not block. A forked process does not keep it: whoever waits for this process's end sees it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor);
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  // From here on neither side sends or receives; a thread that waits for it goes on.
  void hang_up() const;

 private:
  int descriptor_ = -1;
};

// Listens at a port of loopback that was free.
Socket listener(uint16_t* port);
Socket connection_to(uint16_t port, Moment until);
// The next connection that arrives; none if none has by `until`.
Socket next_arrival(const Socket& listener, Moment until);
// Two sockets that are connected with each other.
void make_pair(Socket* first, Socket* second);

// All `bytes`; HCCL_E_TIMEOUT if `until` passes, HCCL_E_REMOTE if the other side ends.
void send(const Socket& socket, const void* data, size_t bytes, Moment until);
void receive(const Socket& socket, void* data, size_t bytes, Moment until);
void send(const Socket& socket, const std::string& text, Moment until);
std::string receive_text(const Socket& socket, Moment until);

// Bytes to send, or room for bytes to receive; `then` is called once they are through, and may throw.
struct Piece {
  void* data;
  size_t bytes;
  std::function<void()> then = nullptr;
};
// What is to pass between this process and one other, each direction in order.
struct Traffic {
  std::vector<Piece> outgoing, incoming;
};

// Sends and receives with all peers at once, so that nobody waits for a turn. `links[i]` and `traffic[i]` are peer i's.
// Failures: HCCL_E_TIMEOUT if `until` passes, HCCL_E_REMOTE if a peer ends; both name the peers.
void exchange(const std::vector<Socket>& links, const std::vector<Traffic>& traffic, Moment until);

}  // namespace standin
