#include "muster/testing/simulation/world.h"

#include <fmt/core.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <new>
#include <utility>

#include "muster/testing/simulation/real_calls_internal.h"

namespace muster::simulation {
namespace {

World* g_world = nullptr;
std::string g_stuck;
thread_local int t_thread = -1;

// So much of the system's time may pass without a switch before the simulation counts as stuck.
constexpr int kMostLooks = 300;
constexpr long kLookNanoseconds = 100'000'000;

// Every switch takes a little time, so that threads that ask again and again get to an end.
constexpr Time kSwitch = 2 * kMicrosecond;

void wait_for_word(std::atomic<std::uint32_t>& word, const timespec* span) {
  real_syscall(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAIT, 0,
               reinterpret_cast<long>(span), 0, 0);
}

void wake_word(std::atomic<std::uint32_t>& word) {
  real_syscall(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAKE, 1, 0, 0, 0);
}

bool comes_later(const Event& a, const Event& b) {
  return a.time != b.time ? a.time > b.time : a.order > b.order;
}

Event take_event() {
  World& w = world();
  std::pop_heap(w.events.begin(), w.events.begin() + w.event_count, comes_later);
  return w.events[static_cast<std::size_t>(--w.event_count)];
}

void wake(Thread& thread, bool notified) {
  thread.state = Thread::State::kReady;
  thread.notified = notified;
  thread.key = nullptr;
  thread.watched_count = 0;
}

bool may_run(const Thread& thread) {
  return world().processes[static_cast<std::size_t>(thread.process)].stopped_until <= world().now;
}

Time next_time() {
  World& w = world();
  Time next = w.event_count > 0 ? w.events[0].time : kNever;
  for (int i = 0; i < w.thread_count; ++i) {
    const Thread& thread = w.threads[static_cast<std::size_t>(i)];
    if (thread.state == Thread::State::kFree) continue;
    const Time from = w.processes[static_cast<std::size_t>(thread.process)].stopped_until;
    const Time due = thread.state == Thread::State::kReady ? from : thread.deadline;
    if (due != kNever) next = std::min(next, std::max(due, from));
  }
  return next;
}

int pick_ready() {
  World& w = world();
  std::array<int, kMostThreads> ready;
  int count = 0;
  for (int i = 0; i < w.thread_count; ++i) {
    Thread& thread = w.threads[static_cast<std::size_t>(i)];
    if (thread.state == Thread::State::kBlocked && thread.deadline <= w.now && may_run(thread)) {
      wake(thread, false);
    }
    if (thread.state != Thread::State::kReady || !may_run(thread)) continue;
    if (i == kDriver) return i;
    ready[static_cast<std::size_t>(count++)] = i;
  }
  if (count == 0) return -1;
  return ready[count == 1
                   ? 0
                   : static_cast<std::size_t>(draw_below(static_cast<std::uint64_t>(count)))];
}

int pick() {
  World& w = world();
  w.now += kSwitch;
  ++w.switches;
  for (;;) {
    while (w.event_count > 0 && w.events[0].time <= w.now) happen(take_event());
    const int chosen = pick_ready();
    if (chosen >= 0) return chosen;
    const Time next = next_time();
    // The driver always has a deadline.
    if (next == kNever) std::abort();
    w.now = std::max(w.now, next);
  }
}

// Signals come to a thread that gets the baton; one that wants to be killed by them, dies.
void take_signals(int number) {
  if (number == kDriver) return;
  Process& process = own_process();
  const int signal = std::exchange(process.pending_signal, 0);
  if (signal == 0) return;
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  if (action.sa_handler == SIG_DFL) exit_process(-signal);
  ::raise(signal);
}

void hand_to(int next) {
  World& w = world();
  w.current = next;
  Thread& thread = w.threads[static_cast<std::size_t>(next)];
  thread.go.store(1);
  wake_word(thread.go);
}

void switch_from(int number) {
  const int next = pick();
  if (next == number) {
    world().current = next;
  } else {
    hand_to(next);
    wait_for_baton(number);
    return;
  }
  take_signals(number);
}

}  // namespace

World& world() { return *g_world; }

void reserve_world() {
  const std::size_t size = sizeof(World) + kRingBytes * kMostSockets;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  g_world = static_cast<World*>(memory);
}

void begin_world(std::uint64_t seed, int story) {
  new (g_world) World;
  World& w = world();
  w.random_state = seed * 0x9E3779B97F4A7C15ULL + 0x1234567;
  w.story = story;
  w.thread_count = 1;
  w.process_count = 1;
  w.processes[kDriver].alive = true;
  w.threads[kDriver].state = Thread::State::kReady;
  auto& name = w.processes[kDriver].name;
  std::string_view("simulation").copy(name.data(), name.size() - 1);
  g_stuck.clear();
}

int this_thread() { return t_thread; }
void set_this_thread(int number) { t_thread = number; }
Thread& self() { return world().threads[static_cast<std::size_t>(t_thread)]; }
Process& own_process() { return world().processes[static_cast<std::size_t>(self().process)]; }

Host& own_host() { return world().hosts[static_cast<std::size_t>(own_process().host)]; }

// splitmix64.
std::uint64_t draw() {
  std::uint64_t z = (world().random_state += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
std::uint64_t draw_below(std::uint64_t bound) { return bound == 0 ? 0 : draw() % bound; }
Time draw_between(Time least, Time most) {
  return least + static_cast<Time>(draw_below(static_cast<std::uint64_t>(most - least) + 1));
}

void tell(int process, std::string_view text) {
  World& w = world();
  if (w.story < 0) return;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::string line =
      fmt::format("{:>12.6f} {:<12} {}\n", static_cast<double>(w.now) / kSecond,
                  w.processes[static_cast<std::size_t>(process)].name.data(), text);
  real_write(w.story, line.data(), line.size());
}

void wait_for_baton(int number) {
  Thread& thread = world().threads[static_cast<std::size_t>(number)];
  while (thread.go.load() == 0) wait_for_word(thread.go, nullptr);
  thread.go.store(0);
  take_signals(number);
}

bool block(Time deadline) {
  Thread& me = self();
  me.state = Thread::State::kBlocked;
  me.deadline = deadline;
  me.notified = false;
  switch_from(t_thread);
  me.key = nullptr;
  me.watched_count = 0;
  return me.notified;
}

bool block_on(const void* key, Time deadline) {
  self().key = key;
  return block(deadline);
}

void yield() {
  self().state = Thread::State::kReady;
  switch_from(t_thread);
}

void maybe_yield() {
  const std::uint32_t share = world().weather.preemptions_per_million;
  if (share > 0 && draw_below(1'000'000) < share) yield();
}

void notify_all(const void* key) {
  World& w = world();
  for (int i = 0; i < w.thread_count; ++i) {
    Thread& thread = w.threads[static_cast<std::size_t>(i)];
    if (thread.state == Thread::State::kBlocked && thread.key == key &&
        thread.process == self().process) {
      wake(thread, true);
    }
  }
}

void notify_one(const void* key) {
  World& w = world();
  std::array<int, kMostThreads> waiting;
  std::uint64_t count = 0;
  for (int i = 0; i < w.thread_count; ++i) {
    const Thread& thread = w.threads[static_cast<std::size_t>(i)];
    if (thread.state == Thread::State::kBlocked && thread.key == key &&
        thread.process == self().process) {
      waiting[count++] = i;
    }
  }
  if (count > 0) wake(w.threads[static_cast<std::size_t>(waiting[draw_below(count)])], true);
}

void notify_watchers(int socket) {
  World& w = world();
  const int process = w.sockets[static_cast<std::size_t>(socket)].process;
  for (int i = 1; i < w.thread_count; ++i) {
    Thread& thread = w.threads[static_cast<std::size_t>(i)];
    if (thread.state != Thread::State::kBlocked || thread.process != process) continue;
    const auto end = thread.watched.begin() + std::max(0, thread.watched_count);
    const bool watches =
        thread.watched_count < 0 || std::find(thread.watched.begin(), end, socket) != end;
    if (watches) wake(thread, true);
  }
}

int new_thread(int process) {
  World& w = world();
  int number = 1;
  while (number < w.thread_count &&
         w.threads[static_cast<std::size_t>(number)].state != Thread::State::kFree) {
    ++number;
  }
  if (number == kMostThreads) std::abort();
  w.thread_count = std::max(w.thread_count, number + 1);
  Thread& thread = w.threads[static_cast<std::size_t>(number)];
  thread.process = process;
  thread.state = Thread::State::kReady;
  thread.go.store(0);
  thread.key = nullptr;
  thread.watched_count = 0;
  thread.deadline = kNever;
  return number;
}

void end_this_thread(const void* join_key) {
  Thread& me = self();
  notify_all(join_key);
  me.state = Thread::State::kFree;
  t_thread = -1;
  hand_to(pick());
}

void add_event(Time time, Event::Kind kind, SocketId to, SocketId from, std::uint64_t position) {
  World& w = world();
  if (w.event_count == kMostEvents) std::abort();
  w.events[static_cast<std::size_t>(w.event_count++)] = {time, w.next_order++, kind,
                                                         to,   from,           position};
  std::push_heap(w.events.begin(), w.events.begin() + w.event_count, comes_later);
}

int start_process(const std::string& name, int host, const std::function<int()>& body) {
  World& w = world();
  if (w.process_count == kMostProcesses) std::abort();
  const int number = w.process_count++;
  Process& process = w.processes[static_cast<std::size_t>(number)];
  process = Process{.alive = true, .host = host};
  std::copy_n(name.data(), std::min(name.size(), process.name.size() - 1), process.name.data());
  process.main_thread = new_thread(number);
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child != 0) {
    process.pid = child;
  } else {
    // A driver that is gone leaves none behind that wait for it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_this_thread(process.main_thread);
    wait_for_baton(process.main_thread);
    exit_process(body());
  }
  return number;
}

namespace {

// Forgets a process that is gone. Its connections end as the system does it, or without a word.
void forget(int number, bool silently = false) {
  World& w = world();
  w.processes[static_cast<std::size_t>(number)].alive = false;
  for (int i = 0; i < w.thread_count; ++i) {
    Thread& thread = w.threads[static_cast<std::size_t>(i)];
    if (thread.process == number) thread.state = Thread::State::kFree;
  }
  for (int i = 0; i < w.socket_count; ++i) {
    Socket& socket = w.sockets[static_cast<std::size_t>(i)];
    if (socket.process != number || socket.kind == Socket::Kind::kFree) continue;
    if (silently) {
      socket.kind = Socket::Kind::kFree;
    } else {
      close_socket(i);
    }
  }
}

int take_exited(int& status) {
  World& w = world();
  for (int i = 1; i < w.process_count; ++i) {
    Process& process = w.processes[static_cast<std::size_t>(i)];
    if (!process.alive || !process.exiting) continue;
    ::waitpid(process.pid, &status, 0);
    forget(i);
    return i;
  }
  return 0;
}

// One that crashed with the baton, or null.
int take_crashed(int& status) {
  World& w = world();
  for (int i = 1; i < w.process_count; ++i) {
    Process& process = w.processes[static_cast<std::size_t>(i)];
    if (!process.alive || process.exiting || ::waitpid(process.pid, &status, WNOHANG) == 0) {
      continue;
    }
    forget(i);
    return i;
  }
  return 0;
}

}  // namespace

int run_until(Time deadline, int& status) {
  World& w = world();
  if (const int ended = take_exited(status)) return ended;
  Thread& driver = w.threads[kDriver];
  driver.state = Thread::State::kBlocked;
  driver.deadline = deadline;
  const int next = pick();
  if (next == kDriver) return 0;
  hand_to(next);
  std::uint64_t switches = 0;
  for (int looks = 0; driver.go.load() == 0;) {
    const timespec span{.tv_sec = 0, .tv_nsec = kLookNanoseconds};
    wait_for_word(driver.go, &span);
    if (driver.go.load() != 0) break;
    if (w.switches != std::exchange(switches, w.switches)) {
      looks = 0;
      continue;
    }
    if (const int crashed = take_crashed(status)) {
      w.current = kDriver;
      driver.state = Thread::State::kReady;
      return crashed;
    }
    if (++looks < kMostLooks) continue;
    const Thread& holder = w.threads[static_cast<std::size_t>(w.current)];
    const Process& process = w.processes[static_cast<std::size_t>(holder.process)];
    g_stuck =
        fmt::format("thread {} of {} (process {}) waits or computes outside of the simulation",
                    w.current, process.name.data(), process.pid);
    return 0;
  }
  driver.go.store(0);
  return take_exited(status);
}

std::string stuck() { return g_stuck; }

namespace {

void end_process(int number, bool silently) {
  Process& process = world().processes[static_cast<std::size_t>(number)];
  if (number == kDriver || !process.alive) return;
  ::kill(process.pid, SIGKILL);
  ::waitpid(process.pid, nullptr, 0);
  forget(number, silently);
}

}  // namespace

void kill_process(int number) { end_process(number, /*silently=*/false); }
void crash_process(int number) { end_process(number, /*silently=*/true); }

void stop_process(int number, Time until) {
  world().processes[static_cast<std::size_t>(number)].stopped_until = until;
}

void signal_process(int number, int signal) {
  World& w = world();
  w.processes[static_cast<std::size_t>(number)].pending_signal = signal;
  for (int i = 1; i < w.thread_count; ++i) {
    Thread& thread = w.threads[static_cast<std::size_t>(i)];
    if (thread.process != number || thread.state == Thread::State::kFree) continue;
    if (thread.state == Thread::State::kBlocked) wake(thread, true);
    return;
  }
}

void exit_process(int status) {
  World& w = world();
  own_process().exiting = true;
  const pid_t pid = own_process().pid;
  w.threads[kDriver].state = Thread::State::kReady;
  t_thread = -1;
  hand_to(kDriver);
  if (status < 0) {
    ::signal(-status, SIG_DFL);
    ::kill(pid, -status);
  }
  real__exit(status & 0xff);
}

}  // namespace muster::simulation
