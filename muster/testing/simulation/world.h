// The shared state of a simulated cluster: who runs, what time it is, what is on its way through
// the network. It lies in memory that the processes of all tasks share, and exactly one thread of
// all of them runs at a time: the one that has the baton. So nothing in here is locked.
//
// Tasks are processes, forked from one that has loaded everything; their threads are real ones. The
// C library's calls that wait, tell the time or reach other processes are answered here
// (calls_of_*.cpp); all others, files among them, are the system's own.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace muster::simulation {

/// Simulated time, in nanoseconds since the start of the simulation.
using Time = std::int64_t;
inline constexpr Time kNever = INT64_MAX;
inline constexpr Time kMicrosecond = 1'000;
inline constexpr Time kMillisecond = 1'000'000;
inline constexpr Time kSecond = 1'000'000'000;

inline constexpr int kMostThreads = 1024;
inline constexpr int kMostProcesses = 128;
inline constexpr int kMostHosts = 16;
inline constexpr int kMostSockets = 1024;
inline constexpr int kMostEvents = 1 << 15;
inline constexpr int kMostWatched = 12;
inline constexpr std::uint64_t kRingBytes = std::uint64_t{1} << 18;
/// The thread and the process that begin, end and disturb the others.
inline constexpr int kDriver = 0;

struct Thread {
  enum class State : std::int32_t { kFree, kReady, kBlocked };
  State state = State::kFree;
  int process = 0;
  /// 1: it has the baton. Threads without it wait for this word to change.
  std::atomic<std::uint32_t> go{0};
  /// Address, in its process, of the object that it waits for.
  const void* key = nullptr;
  /// Sockets that it waits for; -1: too many to list, so every one of its process.
  int watched_count = 0;
  std::array<int, kMostWatched> watched{};
  Time deadline = kNever;
  /// Whether another thread ended its wait, not the time.
  bool notified = false;
  bool ended = false;
};

struct Process {
  bool alive = false;
  bool exiting = false;
  /// Errors in its log are what was asked for.
  bool excused = false;
  pid_t pid = 0;
  int host = 0;
  int main_thread = 0;
  std::array<char, 24> name{};
  /// Its threads do not run before.
  Time stopped_until = 0;
  int pending_signal = 0;
};

struct SocketId {
  int index = -1;
  std::uint32_t generation = 0;
};

struct Socket {
  enum class Kind : std::int32_t { kFree, kTcp, kListener, kPipe, kEvent };
  enum class State : std::int32_t { kNew, kConnecting, kConnected };
  Kind kind = Kind::kFree;
  State state = State::kNew;
  std::uint32_t generation = 0;
  int process = -1;
  int host = 0;
  std::uint32_t address = 0, peer_address = 0;
  std::uint16_t port = 0, peer_port = 0;
  SocketId peer{};
  int error = 0;
  bool nonblocking = false;
  bool read_shut = false, write_shut = false;
  /// The peer has said that nothing more comes.
  bool finished = false;
  Time receive_timeout = 0, send_timeout = 0;
  /// Bytes that were read, that have arrived, and that were sent to here.
  std::uint64_t head = 0, arrived = 0, tail = 0;
  /// When the last bytes arrive that were sent to here: a stream keeps its order.
  Time last_arrival = 0;
  std::uint64_t count = 0;  // Of an event's.
  int waiting = 0;
  std::array<SocketId, 64> accept_queue{};
};

struct Event {
  enum class Kind : std::int32_t { kArrive, kFinish, kReset, kConnect, kConnected, kRefused };
  Time time = 0;
  std::uint64_t order = 0;
  Kind kind = Kind::kArrive;
  SocketId to{}, from{};
  std::uint64_t position = 0;
};

/// Faults of one direction of a link between hosts.
struct Link {
  /// Nothing arrives before.
  Time cut_until = 0;
  Time slow_until = 0;
  Time more_latency = 0;
};

/// How a simulation behaves while nothing is wrong.
struct Weather {
  Time least_latency = 20 * kMicrosecond;
  Time most_latency = 300 * kMicrosecond;
  /// How many of a million calls that need not wait let another thread run.
  std::uint32_t preemptions_per_million = 0;
  /// How many of a million sends are taken in part.
  std::uint32_t short_sends_per_million = 0;
  /// How many of a million writes to files are taken in part.
  std::uint32_t short_writes_per_million = 0;
};

/// Faults of one host's disk and clock.
struct Host {
  Time full_until = 0;
  Time slow_until = 0;
  Time delay = 0;
  /// It has crashed, and says nothing to its peers before.
  Time down_until = 0;
  /// Difference of its wall clock to the simulated time.
  Time clock_offset = 0;
};

struct World {
  Time now = 0;
  std::uint64_t random_state = 0;
  std::uint64_t switches = 0;
  int current = kDriver;
  int thread_count = 0;
  int process_count = 0;
  int socket_count = 0;
  int event_count = 0;
  std::uint64_t next_order = 0;
  std::uint16_t next_port = 32768;
  int story = -1;
  Weather weather{};
  std::array<Host, kMostHosts> hosts{};
  /// Where copies of what hosts have synced are; empty: no host crashes, so none are made.
  std::array<char, 256> kept_folder{};
  /// The first line of a log that is an error's.
  std::array<char, 400> first_error{};
  std::array<std::array<Link, kMostHosts>, kMostHosts> links{};
  std::array<Process, kMostProcesses> processes{};
  std::array<Thread, kMostThreads> threads{};
  std::array<Event, kMostEvents> events{};
  std::array<Socket, kMostSockets> sockets{};
};

/// The world of this process and its children.
World& world();
/// Takes the memory of a world: before the first one begins, in a process that all others come
/// from.
void reserve_world();
/// Starts anew: no process but the driver, time zero.
void begin_world(std::uint64_t seed, int story);

/// Number of the calling thread in the world; -1 for one that is not simulated.
int this_thread();
void set_this_thread(int number);
inline bool is_simulated() { return this_thread() >= 0; }
Thread& self();
Process& own_process();
Host& own_host();

std::uint64_t draw();
/// From 0 to `bound` - 1.
std::uint64_t draw_below(std::uint64_t bound);
Time draw_between(Time least, Time most);

/// Writes a line about a process to the story.
void tell(int process, std::string_view text);

/// Gives the baton away until another thread ends the wait, or time does (false). What is waited
/// for is in self(): key or watched.
bool block(Time deadline);
/// Waits for `key` of this process to be notified.
bool block_on(const void* key, Time deadline);
/// Lets others run first.
void yield();
/// Lets others run first, sometimes.
void maybe_yield();
/// Ends waits for an address in this process: of one of them, or of all.
void notify_one(const void* key);
void notify_all(const void* key);
/// Ends waits for a socket.
void notify_watchers(int socket);

int new_thread(int process);
/// The calling thread of the world ends: others run, and it returns.
void end_this_thread(const void* join_key);
/// Waits for the baton, as a thread that was just made.
void wait_for_baton(int thread);

void add_event(Time time, Event::Kind kind, SocketId to, SocketId from, std::uint64_t position = 0);

/// Lets an event happen whose time has come.
void happen(const Event& event);

// Functions of the driver, for while it has the baton.

/// Forks a process that runs `body` and exits with what it returns. Returns its number.
int start_process(const std::string& name, int host, const std::function<int()>& body);
/// Until a process ends, or the time comes. Returns the number of a process that ended by itself,
/// with its wait status in `status`, or 0.
int run_until(Time deadline, int& status);
/// As the system does it, at once: its connections end.
void kill_process(int process);
/// Without a word to its peers, as a host that has no power.
void crash_process(int process);
/// Leaves of a host's folder what was synced, and some of the rest.
void lose_unsynced(const std::string& folder);
void stop_process(int process, Time until);
void signal_process(int process, int signal);
/// Resets a connection of two processes, and cuts what is on its way anywhere. False without one.
bool reset_a_connection();
/// Whether this simulation cannot go on, and why: a thread waits outside of it.
std::string stuck();

/// Notes that an open file or folder is synced.
void keep_synced(int descriptor);
// The calling process exits: of the calls.
[[noreturn]] void exit_process(int status);

// Sockets: as the system's calls, with a negative errno.
SocketId make_socket(Socket::Kind kind);
Socket* find(const SocketId& id);
int listen_at(Socket& socket);
void start_connecting(int socket);
int accept_from(int listener);
/// Takes some of the bytes. 0 where there is no room.
std::int64_t send_bytes(int socket, const void* bytes, std::size_t size);
std::int64_t receive_bytes(int socket, void* bytes, std::size_t size);
void shut_down(int socket, int how);
void close_socket(int socket);
short ready_events(int socket, short wanted);

}  // namespace muster::simulation
