// Sockets, and the exchange of bytes with several peers at once.
#include "wire.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

#include "third_party/hccl/inc/hccl/hccl_types.h"

namespace standin {
namespace {

constexpr int kBacklog = 1024;
constexpr uint32_t kLongestText = 1 << 20;

// Descriptors of this process, closed in a fork of it; never destroyed, as threads use them while the process ends.
struct Open {
  std::mutex lock;
  std::set<int> descriptors;
};
Open& open_sockets() {
  static Open* all = [] {
    auto* made = new Open;
    pthread_atfork([] { open_sockets().lock.lock(); }, [] { open_sockets().lock.unlock(); },
                   [] {
                     for (int descriptor : open_sockets().descriptors) close(descriptor);
                     open_sockets().descriptors.clear();
                     open_sockets().lock.unlock();
                   });
    return made;
  }();
  return *all;
}

[[noreturn]] void fail_with(int error, const std::string& what) { throw Failure{error, what}; }

[[noreturn]] void fail_with_errno(const std::string& what) {
  fail_with(HCCL_E_SYSCALL, what + ": " + std::strerror(errno));
}

// Milliseconds for poll(): until `until`, at least 0; -1 for never.
int left(Moment until) {
  if (until == Moment::max()) return -1;
  auto span = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(span + 1, 0, 1 << 30));
}

// Whether one of `polled` is ready before `until`.
bool ready(std::vector<pollfd>& polled, Moment until) {
  while (true) {
    int count = poll(polled.data(), polled.size(), left(until));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) fail_with_errno("poll");
    if (count == 0 && std::chrono::steady_clock::now() >= until) return false;
  }
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Socket stream_socket() {
  int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail_with_errno("socket");
  return Socket(descriptor);
}

void without_delay(const Socket& socket) {
  int on = 1;
  setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// What one call moved: bytes, or 0 if it would have to wait.
size_t moved(ssize_t result, bool sends) {
  if (result > 0) return static_cast<size_t>(result);
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  if (result == 0 || errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN)
    fail_with(HCCL_E_REMOTE, "has ended, or has given the communicator up");
  fail_with_errno(sends ? "send" : "recv");
}

// One direction of one link.
class Flow {
 public:
  Flow(const Socket& link, const std::vector<Piece>& pieces, bool sends)
      : link_(&link), pieces_(&pieces), sends_(sends) {
    skip();
  }
  bool done() const { return piece_ == pieces_->size(); }
  // As much as goes without waiting.
  void advance() {
    while (!done()) {
      const Piece& piece = (*pieces_)[piece_];
      char* at = static_cast<char*>(piece.data) + offset_;
      size_t bytes = piece.bytes - offset_;
      size_t now = moved(sends_ ? ::send(link_->descriptor(), at, bytes, MSG_NOSIGNAL)
                                : ::recv(link_->descriptor(), at, bytes, 0),
                         sends_);
      if (!now) return;
      offset_ += now;
      skip();
    }
  }

 private:
  void skip() {
    while (!done() && offset_ == (*pieces_)[piece_].bytes) {
      if ((*pieces_)[piece_].then) (*pieces_)[piece_].then();
      ++piece_;
      offset_ = 0;
    }
  }
  const Socket* link_;
  const std::vector<Piece>* pieces_;
  bool sends_;
  size_t piece_ = 0, offset_ = 0;
};

void transfer(const Socket& socket, void* data, size_t bytes, Moment until, bool sends) {
  std::vector<Piece> pieces = {{data, bytes}};
  Flow flow(socket, pieces, sends);
  while (flow.advance(), !flow.done()) {
    std::vector<pollfd> polled = {{socket.descriptor(), static_cast<short>(sends ? POLLOUT : POLLIN), 0}};
    if (!ready(polled, until)) fail_with(HCCL_E_TIMEOUT, "was silent for too long");
  }
}

}  // namespace

Moment in(long seconds) {
  return seconds ? std::chrono::steady_clock::now() + std::chrono::seconds(seconds) : Moment::max();
}

Socket::Socket(int descriptor) : descriptor_(descriptor) {
  std::lock_guard<std::mutex> guard(open_sockets().lock);
  open_sockets().descriptors.insert(descriptor);
}

Socket::Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ < 0) return;
  std::lock_guard<std::mutex> guard(open_sockets().lock);
  if (open_sockets().descriptors.erase(descriptor_)) close(descriptor_);  // in a fork it is closed
}

void Socket::hang_up() const {
  if (descriptor_ >= 0) shutdown(descriptor_, SHUT_RDWR);
}

Socket listener(uint16_t* port) {
  Socket made = stream_socket();
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  if (bind(made.descriptor(), reinterpret_cast<sockaddr*>(&address), length) || listen(made.descriptor(), kBacklog) ||
      getsockname(made.descriptor(), reinterpret_cast<sockaddr*>(&address), &length))
    fail_with_errno("a port of loopback to listen at");
  *port = ntohs(address.sin_port);
  return made;
}

Socket connection_to(uint16_t port, Moment until) {
  Socket made = stream_socket();
  sockaddr_in address = loopback(port);
  std::string what = "a connection to port " + std::to_string(port) + " of loopback";
  int error = connect(made.descriptor(), reinterpret_cast<sockaddr*>(&address), sizeof address) ? errno : 0;
  if (error == EINPROGRESS) {
    std::vector<pollfd> polled = {{made.descriptor(), POLLOUT, 0}};
    if (!ready(polled, until)) fail_with(HCCL_E_TIMEOUT, what + " took too long");
    socklen_t length = sizeof error;
    getsockopt(made.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error) fail_with(HCCL_E_TCP_CONNECT, what + ": " + std::strerror(error));
  without_delay(made);
  return made;
}

Socket next_arrival(const Socket& listener, Moment until) {
  while (true) {
    std::vector<pollfd> polled = {{listener.descriptor(), POLLIN, 0}};
    if (!ready(polled, until)) return Socket();
    int descriptor = accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      Socket made(descriptor);
      without_delay(made);
      return made;
    }
    if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) fail_with_errno("accept");
  }
}

void make_pair(Socket* first, Socket* second) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) fail_with_errno("socketpair");
  *first = Socket(pair[0]);
  *second = Socket(pair[1]);
}

void send(const Socket& socket, const void* data, size_t bytes, Moment until) {
  transfer(socket, const_cast<void*>(data), bytes, until, true);
}

void receive(const Socket& socket, void* data, size_t bytes, Moment until) {
  transfer(socket, data, bytes, until, false);
}

void send(const Socket& socket, const std::string& text, Moment until) {
  uint32_t length = static_cast<uint32_t>(text.size());
  send(socket, &length, sizeof length, until);
  send(socket, text.data(), length, until);
}

std::string receive_text(const Socket& socket, Moment until) {
  uint32_t length = 0;
  receive(socket, &length, sizeof length, until);
  if (length > kLongestText) fail_with(HCCL_E_TCP_TRANSFER, "sent what is not of this protocol");
  std::string text(length, '\0');
  receive(socket, text.data(), length, until);
  return text;
}

void exchange(const std::vector<Socket>& links, const std::vector<Traffic>& traffic, Moment until) {
  struct Direction {
    size_t peer;
    short event;
    Flow flow;
  };
  std::vector<Direction> open;
  for (size_t peer = 0; peer < links.size(); ++peer) {
    open.push_back({peer, POLLOUT, Flow(links[peer], traffic[peer].outgoing, true)});
    open.push_back({peer, POLLIN, Flow(links[peer], traffic[peer].incoming, false)});
  }
  while (true) {
    for (Direction& direction : open) {
      try {
        direction.flow.advance();
      } catch (Failure& failure) {
        failure.why = "rank " + std::to_string(direction.peer) + " " + failure.why;
        throw;
      }
    }
    open.erase(std::remove_if(open.begin(), open.end(), [](const Direction& each) { return each.flow.done(); }),
               open.end());
    if (open.empty()) return;
    std::vector<pollfd> polled;
    for (const Direction& direction : open) polled.push_back({links[direction.peer].descriptor(), direction.event, 0});
    if (ready(polled, until)) continue;
    std::set<size_t> silent;
    for (const Direction& direction : open) silent.insert(direction.peer);
    std::string names;
    for (size_t peer : silent) names += (names.empty() ? "" : ", ") + std::to_string(peer);
    fail_with(HCCL_E_TIMEOUT, "rank " + names + " did not come in time");
  }
}

}  // namespace standin
