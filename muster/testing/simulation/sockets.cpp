// TCP between simulated hosts, pipes and events: bytes that are sent are copied to the receiver's
// ring at once and count as arrived later.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "muster/testing/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr std::uint16_t kFirstOwnPort = 32768;

Socket& socket_at(int index) { return world().sockets[static_cast<std::size_t>(index)]; }

SocketId id_of(int index) { return {index, socket_at(index).generation}; }

char* ring_of(int index) {
  char* const rings = reinterpret_cast<char*>(&world()) + sizeof(World);
  return rings + static_cast<std::size_t>(index) * kRingBytes;
}

// An address says which host: 127.0.0.HOST.
int host_of(std::uint32_t address) { return static_cast<int>(address & 0xff) % kMostHosts; }

Time latency_between(int from, int to) {
  const Weather& weather = world().weather;
  if (from == to) return weather.least_latency;
  return draw_between(weather.least_latency, weather.most_latency);
}

// When that which is sent now from one host comes to the other.
Time arrival_at(int from, int to) {
  const World& w = world();
  const Link& link = w.links[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  Time time = w.now + latency_between(from, to);
  if (link.slow_until > w.now) time += link.more_latency;
  return std::max({time, link.cut_until, w.hosts[static_cast<std::size_t>(to)].down_until});
}

// In the order of what was sent before.
Time next_arrival(const Socket& from, Socket& to) {
  to.last_arrival = std::max(to.last_arrival, arrival_at(from.host, to.host));
  return to.last_arrival;
}

int find_listener(std::uint32_t address, std::uint16_t port) {
  World& w = world();
  for (int i = 0; i < w.socket_count; ++i) {
    const Socket& socket = socket_at(i);
    if (socket.kind == Socket::Kind::kListener && socket.port == port &&
        (socket.address == address || socket.address == 0)) {
      return i;
    }
  }
  return -1;
}

// The server's side of a connection, in the queue of the listener. Negative where there is none.
int take_guest(Socket& client, const SocketId& client_id) {
  const int index = find_listener(client.peer_address, client.peer_port);
  if (index < 0) return -1;
  Socket& listener = socket_at(index);
  if (listener.waiting == static_cast<int>(listener.accept_queue.size())) return -1;
  const SocketId made = make_socket(Socket::Kind::kTcp);
  Socket& server = socket_at(made.index);
  server.state = Socket::State::kConnected;
  server.process = listener.process;
  server.host = listener.host;
  server.address = client.peer_address;
  server.port = client.peer_port;
  server.peer_address = client.address;
  server.peer_port = client.port;
  server.peer = client_id;
  client.peer = made;
  listener.accept_queue[static_cast<std::size_t>(listener.waiting++)] = made;
  notify_watchers(index);
  return made.index;
}

void happen_to_connect(const Event& event) {
  Socket* const client = find(event.to);
  if (client == nullptr) return;
  const int server = take_guest(*client, event.to);
  const int host = server < 0 ? client->host : socket_at(server).host;
  add_event(arrival_at(host, client->host),
            server < 0 ? Event::Kind::kRefused : Event::Kind::kConnected, event.to, {});
}

void reset(const SocketId& id) {
  Socket* const socket = find(id);
  if (socket == nullptr) return;
  socket->error = socket->state == Socket::State::kConnecting ? ECONNREFUSED : ECONNRESET;
  socket->state = Socket::State::kConnected;
  socket->tail = socket->arrived;
  socket->peer = {};
  notify_watchers(id.index);
}

void arrive(const Event& event) {
  Socket* const to = find(event.to);
  if (to != nullptr && !(to->read_shut && to->write_shut)) {
    to->arrived = std::max(to->arrived, std::min(event.position, to->tail));
    notify_watchers(event.to.index);
    return;
  }
  // No process has that connection any more.
  if (Socket* const from = find(event.from); from != nullptr && to == nullptr) {
    add_event(world().now + world().weather.least_latency, Event::Kind::kReset, event.from, {});
  }
}

}  // namespace

Socket* find(const SocketId& id) {
  if (id.index < 0) return nullptr;
  Socket& socket = socket_at(id.index);
  return socket.kind != Socket::Kind::kFree && socket.generation == id.generation ? &socket
                                                                                  : nullptr;
}

void happen(const Event& event) {
  Socket* const to = find(event.to);
  switch (event.kind) {
    case Event::Kind::kArrive:
      arrive(event);
      return;
    case Event::Kind::kConnect:
      happen_to_connect(event);
      return;
    case Event::Kind::kReset:
    case Event::Kind::kRefused:
      reset(event.to);
      return;
    case Event::Kind::kConnected:
      if (to != nullptr) to->state = Socket::State::kConnected;
      break;
    case Event::Kind::kFinish:
      if (to != nullptr) to->finished = true;
      break;
  }
  if (to != nullptr) notify_watchers(event.to.index);
}

SocketId make_socket(Socket::Kind kind) {
  World& w = world();
  int index = 0;
  while (index < w.socket_count && socket_at(index).kind != Socket::Kind::kFree) ++index;
  if (index == kMostSockets) std::abort();
  w.socket_count = std::max(w.socket_count, index + 1);
  Socket& socket = socket_at(index);
  const std::uint32_t generation = socket.generation + 1;
  socket = Socket{.kind = kind, .generation = generation};
  if (is_simulated()) {
    socket.process = self().process;
    socket.host = own_process().host;
  }
  return {index, generation};
}

int listen_at(Socket& socket) {
  if (find_listener(socket.address, socket.port) >= 0) return -EADDRINUSE;
  if (socket.port == 0) socket.port = world().next_port++;
  socket.kind = Socket::Kind::kListener;
  return 0;
}

void start_connecting(int index) {
  Socket& socket = socket_at(index);
  socket.state = Socket::State::kConnecting;
  if (socket.port == 0) socket.port = std::max(kFirstOwnPort, world().next_port++);
  add_event(arrival_at(socket.host, host_of(socket.peer_address)), Event::Kind::kConnect,
            id_of(index), {});
}

int accept_from(int index) {
  Socket& listener = socket_at(index);
  while (listener.waiting > 0) {
    const SocketId first = listener.accept_queue[0];
    std::copy(listener.accept_queue.begin() + 1, listener.accept_queue.begin() + listener.waiting,
              listener.accept_queue.begin());
    --listener.waiting;
    if (find(first) != nullptr) return first.index;
  }
  return -EAGAIN;
}

std::int64_t send_bytes(int index, const void* bytes, std::size_t size) {
  Socket& from = socket_at(index);
  if (from.error != 0) return -std::exchange(from.error, 0);
  if (from.write_shut) return -EPIPE;
  if (from.kind == Socket::Kind::kTcp && from.state != Socket::State::kConnected) return -ENOTCONN;
  Socket* const to = find(from.peer);
  if (to == nullptr) {
    // A host where no process has the connection answers with a reset.
    if (from.peer.index < 0) return -EPIPE;
    const int host = host_of(from.peer_address);
    add_event(arrival_at(from.host, host) + world().weather.least_latency, Event::Kind::kReset,
              id_of(index), {});
    return static_cast<std::int64_t>(size);
  }
  const std::uint64_t room = kRingBytes - (to->tail - to->head);
  std::uint64_t count = std::min<std::uint64_t>(room, size);
  if (count > 1 && draw_below(1'000'000) < world().weather.short_sends_per_million) {
    count = 1 + draw_below(count);
  }
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t at = (to->tail + done) % kRingBytes;
    const std::uint64_t now = std::min(count - done, kRingBytes - at);
    std::memcpy(ring_of(from.peer.index) + at, static_cast<const char*>(bytes) + done, now);
    done += now;
  }
  to->tail += count;
  if (from.kind == Socket::Kind::kPipe) {
    to->arrived = to->tail;
    notify_watchers(from.peer.index);
  } else if (count > 0) {
    add_event(next_arrival(from, *to), Event::Kind::kArrive, from.peer, id_of(index), to->tail);
  }
  return static_cast<std::int64_t>(count);
}

std::int64_t receive_bytes(int index, void* bytes, std::size_t size) {
  Socket& socket = socket_at(index);
  const std::uint64_t count = std::min<std::uint64_t>(socket.arrived - socket.head, size);
  if (count == 0) {
    if (socket.error != 0) return -std::exchange(socket.error, 0);
    if (socket.finished || socket.read_shut || size == 0) return 0;
    if (socket.kind == Socket::Kind::kTcp && socket.state != Socket::State::kConnected)
      return -ENOTCONN;
    return -EAGAIN;
  }
  for (std::uint64_t done = 0; done < count && bytes != nullptr;) {
    const std::uint64_t at = (socket.head + done) % kRingBytes;
    const std::uint64_t now = std::min(count - done, kRingBytes - at);
    std::memcpy(static_cast<char*>(bytes) + done, ring_of(index) + at, now);
    done += now;
  }
  const bool was_full = socket.tail - socket.head == kRingBytes;
  socket.head += count;
  if (was_full && find(socket.peer) != nullptr) notify_watchers(socket.peer.index);
  return static_cast<std::int64_t>(count);
}

void shut_down(int index, int how) {
  Socket& socket = socket_at(index);
  if (how != SHUT_WR) socket.read_shut = true;
  if (how != SHUT_RD && !socket.write_shut) {
    socket.write_shut = true;
    if (Socket* const peer = find(socket.peer)) {
      add_event(next_arrival(socket, *peer), Event::Kind::kFinish, socket.peer, id_of(index));
    }
  }
  notify_watchers(index);
}

void close_socket(int index) {
  Socket& socket = socket_at(index);
  if (Socket* const peer = find(socket.peer)) {
    const bool unread = socket.kind == Socket::Kind::kTcp && socket.arrived > socket.head;
    if (socket.kind == Socket::Kind::kPipe) {
      peer->finished = true;
      notify_watchers(socket.peer.index);
    } else if (unread || !socket.write_shut) {
      add_event(next_arrival(socket, *peer), unread ? Event::Kind::kReset : Event::Kind::kFinish,
                socket.peer, id_of(index));
    }
  }
  for (int i = 0; i < socket.waiting; ++i) {
    const SocketId guest = socket.accept_queue[static_cast<std::size_t>(i)];
    if (find(guest) != nullptr) close_socket(guest.index);
  }
  socket.kind = Socket::Kind::kFree;
}

short ready_events(int index, short wanted) {
  const Socket& socket = socket_at(index);
  int events = 0;
  switch (socket.kind) {
    case Socket::Kind::kListener:
      if (socket.waiting > 0) events |= POLLIN;
      break;
    case Socket::Kind::kEvent:
      events |= POLLOUT | (socket.count > 0 ? POLLIN : 0);
      break;
    default: {
      if (socket.error != 0) events |= POLLERR | POLLHUP | POLLIN | POLLOUT | POLLRDHUP;
      if (socket.arrived > socket.head || socket.finished || socket.read_shut) events |= POLLIN;
      if (socket.finished || socket.read_shut) events |= POLLRDHUP;
      if ((socket.finished || socket.read_shut) && socket.write_shut) events |= POLLHUP;
      if (socket.kind == Socket::Kind::kTcp && socket.state != Socket::State::kConnected) break;
      const Socket* const to = find(socket.peer);
      if (to == nullptr || to->tail - to->head < kRingBytes) events |= POLLOUT;
    }
  }
  return static_cast<short>(events & (wanted | POLLERR | POLLHUP));
}

bool reset_a_connection() {
  World& w = world();
  std::vector<int> connected;
  connected.reserve(kMostSockets);
  for (int i = 0; i < w.socket_count; ++i) {
    const Socket& socket = socket_at(i);
    const Socket* const peer = find(socket.peer);
    if (socket.kind == Socket::Kind::kTcp && peer != nullptr && peer->process != socket.process) {
      connected.push_back(i);
    }
  }
  if (connected.empty()) return false;
  const int chosen = connected[draw_below(connected.size())];
  const SocketId both[] = {id_of(chosen), socket_at(chosen).peer};
  for (const SocketId& id : both) {
    // Some of what is on its way arrives.
    Socket& socket = *find(id);
    socket.arrived += draw_below(socket.tail - socket.arrived + 1);
  }
  for (const SocketId& id : both) reset(id);
  return true;
}

}  // namespace muster::simulation
