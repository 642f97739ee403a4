// The calls of the C library that make threads and wait for them, and those that tell the time.
// Threads that are not simulated get the library's own.
#include <errno.h>
#include <fmt/core.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <time.h>

#include <climits>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "muster/testing/simulation/real_calls_internal.h"
#include "muster/testing/simulation/world.h"

// Calls the library's own: REAL(pthread_join)(thread, result).
#define REAL(name)                                          \
  (::muster::simulation::real_call<decltype(::name)>(       \
      []() -> decltype(::name)*& {                          \
        static constinit decltype(::name)* known = nullptr; \
        return known;                                       \
      }(),                                                  \
      #name))

namespace muster::simulation {

long real_syscall(long number, long a, long b, long c, long d, long e, long f) {
  using Syscall = long(long, ...);
  static constinit Syscall* known = nullptr;
  real_call(known, "syscall");
  return known(number, a, b, c, d, e, f);
}

namespace {

/// 2026-01-01.
constexpr Time kEpoch = Time{1'767'225'600} * kSecond;
/// A look at the clock takes so long: loops that look at nothing else get to an end.
constexpr Time kLook = 100;

/// Shared with the library's own mutexes, which are unlocked when a simulation begins.
struct Mutex {
  int locked;
  unsigned count;
  int owner;
  unsigned waiters;
  int kind;
};
static_assert(sizeof(Mutex) <= sizeof(pthread_mutex_t));

struct Condition {
  int monotonic;
};
struct ReadWriteLock {
  int writer;
  int readers;
};

Mutex& of(pthread_mutex_t* mutex) { return *reinterpret_cast<Mutex*>(mutex); }
Condition& of(pthread_cond_t* condition) { return *reinterpret_cast<Condition*>(condition); }
ReadWriteLock& of(pthread_rwlock_t* lock) { return *reinterpret_cast<ReadWriteLock*>(lock); }

bool is_recursive(const Mutex& mutex) { return (mutex.kind & 3) == PTHREAD_MUTEX_RECURSIVE_NP; }

int own_number() { return this_thread() + 1; }

int try_lock(Mutex& mutex) {
  if (mutex.locked == 0) {
    mutex = {.locked = 1,
             .count = 1,
             .owner = own_number(),
             .waiters = mutex.waiters,
             .kind = mutex.kind};
    return 0;
  }
  if (mutex.owner == own_number() && is_recursive(mutex)) {
    ++mutex.count;
    return 0;
  }
  return EBUSY;
}

int lock(Mutex& mutex, Time deadline) {
  while (try_lock(mutex) != 0) {
    ++mutex.waiters;
    const bool notified = block_on(&mutex, deadline);
    --mutex.waiters;
    if (!notified && world().now >= deadline) return ETIMEDOUT;
  }
  return 0;
}

void unlock(Mutex& mutex) {
  if (--mutex.count > 0) return;
  mutex.locked = 0;
  mutex.owner = 0;
  if (mutex.waiters > 0) notify_all(&mutex);
}

Time clock_offset(clockid_t clock) {
  const bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  return is_wall ? kEpoch + own_host().clock_offset : kSecond;
}

Time nanoseconds(const timespec& span) { return span.tv_sec * kSecond + span.tv_nsec; }

// The simulated time at which that clock shows it.
Time time_of(clockid_t clock, const timespec* at) {
  if (at == nullptr || at->tv_sec > INT32_MAX * std::int64_t{2}) return kNever;
  return nanoseconds(*at) - clock_offset(clock);
}

Time after(const timespec* span) {
  if (span == nullptr || span->tv_sec > INT32_MAX) return kNever;
  return world().now + nanoseconds(*span);
}

timespec spec_of(Time time) { return {.tv_sec = time / kSecond, .tv_nsec = time % kSecond}; }

int wait(pthread_cond_t* condition, pthread_mutex_t* mutex, Time deadline) {
  const unsigned count = of(mutex).count;
  of(mutex).count = 1;
  unlock(of(mutex));
  const bool notified = block_on(condition, deadline);
  lock(of(mutex), kNever);
  of(mutex).count = count;
  return !notified && world().now >= deadline ? ETIMEDOUT : 0;
}

/// A thread, from its making to when it is joined.
struct Start {
  void* (*body)(void*);
  void* argument;
  int number;
};

/// Whether a thread of this process has ended, by its handle.
std::map<pthread_t, bool>& threads_here() {
  static auto* const threads = new std::map<pthread_t, bool>;
  return *threads;
}

constinit pthread_key_t g_last_key = 0;
constinit bool g_has_key = false;

// After all other destructors of the thread's own variables.
void end_thread(void* rounds) {
  const auto left = reinterpret_cast<std::intptr_t>(rounds);
  if (left > 1) {
    ::pthread_setspecific(g_last_key, reinterpret_cast<void*>(left - 1));
    return;
  }
  const auto found = threads_here().find(::pthread_self());
  if (found != threads_here().end()) found->second = true;
  end_this_thread(reinterpret_cast<const void*>(::pthread_self()));
}

void* begin_thread(void* given) {
  const Start start = *static_cast<Start*>(given);
  delete static_cast<Start*>(given);
  set_this_thread(start.number);
  wait_for_baton(start.number);
  ::pthread_setspecific(g_last_key,
                        reinterpret_cast<void*>(std::intptr_t{PTHREAD_DESTRUCTOR_ITERATIONS}));
  return start.body(start.argument);
}

int futex(std::uint32_t* word, int operation, std::uint32_t value, const timespec* span) {
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    if (value > 1)
      notify_all(word);
    else
      notify_one(word);
    return 1;
  }
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) {
    errno = ENOSYS;
    return -1;
  }
  if (*reinterpret_cast<volatile std::uint32_t*>(word) != value) {
    errno = EAGAIN;
    return -1;
  }
  const clockid_t clock =
      (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  const Time deadline = command == FUTEX_WAIT ? after(span) : time_of(clock, span);
  if (block_on(word, deadline) || world().now < deadline) return 0;
  errno = ETIMEDOUT;
  return -1;
}

}  // namespace
}  // namespace muster::simulation

using namespace muster::simulation;  // NOLINT: the calls below are of no namespace.

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  if (!is_simulated()) return REAL(pthread_create)(thread, attributes, body, argument);
  if (!std::exchange(g_has_key, true)) ::pthread_key_create(&g_last_key, end_thread);
  const int number = new_thread(self().process);
  const int error =
      REAL(pthread_create)(thread, attributes, begin_thread,
                           new Start{.body = body, .argument = argument, .number = number});
  if (error != 0) {
    world().threads[static_cast<std::size_t>(number)].state = Thread::State::kFree;
    return error;
  }
  threads_here()[*thread] = false;
  maybe_yield();
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  if (is_simulated()) {
    const auto found = threads_here().find(thread);
    while (found != threads_here().end() && !found->second) {
      block_on(reinterpret_cast<const void*>(thread), kNever);
    }
    if (found != threads_here().end()) threads_here().erase(found);
  }
  return REAL(pthread_join)(thread, result);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (!is_simulated()) return REAL(pthread_mutex_lock)(mutex);
  maybe_yield();
  return lock(of(mutex), kNever);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  return is_simulated() ? try_lock(of(mutex)) : REAL(pthread_mutex_trylock)(mutex);
}
int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  if (!is_simulated()) return REAL(pthread_mutex_timedlock)(mutex, until);
  return lock(of(mutex), time_of(CLOCK_REALTIME, until));
}
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (!is_simulated()) return REAL(pthread_mutex_clocklock)(mutex, clock, until);
  return lock(of(mutex), time_of(clock, until));
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (!is_simulated()) return REAL(pthread_mutex_unlock)(mutex);
  unlock(of(mutex));
  maybe_yield();
  return 0;
}

int pthread_cond_init(pthread_cond_t* condition, const pthread_condattr_t* attributes) {
  if (!is_simulated()) return REAL(pthread_cond_init)(condition, attributes);
  std::memset(condition, 0, sizeof(*condition));
  clockid_t clock = CLOCK_REALTIME;
  if (attributes != nullptr) ::pthread_condattr_getclock(attributes, &clock);
  of(condition).monotonic = clock == CLOCK_REALTIME ? 0 : 1;
  return 0;
}
int pthread_cond_destroy(pthread_cond_t* condition) {
  return is_simulated() ? 0 : REAL(pthread_cond_destroy)(condition);
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!is_simulated()) return REAL(pthread_cond_wait)(condition, mutex);
  return wait(condition, mutex, kNever);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  if (!is_simulated()) return REAL(pthread_cond_timedwait)(condition, mutex, until);
  const clockid_t clock = of(condition).monotonic != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  return wait(condition, mutex, time_of(clock, until));
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  if (!is_simulated()) return REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
  return wait(condition, mutex, time_of(clock, until));
}
int pthread_cond_signal(pthread_cond_t* condition) {
  if (!is_simulated()) return REAL(pthread_cond_signal)(condition);
  notify_one(condition);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) {
  if (!is_simulated()) return REAL(pthread_cond_broadcast)(condition);
  notify_all(condition);
  return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t* rwlock) {
  if (!is_simulated()) return REAL(pthread_rwlock_rdlock)(rwlock);
  while (of(rwlock).writer != 0) block_on(rwlock, kNever);
  ++of(rwlock).readers;
  return 0;
}
int pthread_rwlock_tryrdlock(pthread_rwlock_t* rwlock) {
  if (!is_simulated()) return REAL(pthread_rwlock_tryrdlock)(rwlock);
  if (of(rwlock).writer != 0) return EBUSY;
  ++of(rwlock).readers;
  return 0;
}
int pthread_rwlock_wrlock(pthread_rwlock_t* rwlock) {
  if (!is_simulated()) return REAL(pthread_rwlock_wrlock)(rwlock);
  while (of(rwlock).writer != 0 || of(rwlock).readers > 0) block_on(rwlock, kNever);
  of(rwlock).writer = 1;
  return 0;
}
int pthread_rwlock_trywrlock(pthread_rwlock_t* rwlock) {
  if (!is_simulated()) return REAL(pthread_rwlock_trywrlock)(rwlock);
  if (of(rwlock).writer != 0 || of(rwlock).readers > 0) return EBUSY;
  of(rwlock).writer = 1;
  return 0;
}
int pthread_rwlock_unlock(pthread_rwlock_t* rwlock) {
  if (!is_simulated()) return REAL(pthread_rwlock_unlock)(rwlock);
  if (of(rwlock).writer != 0)
    of(rwlock).writer = 0;
  else
    --of(rwlock).readers;
  notify_all(rwlock);
  return 0;
}

int pthread_once(pthread_once_t* once, void (*routine)()) {
  if (!is_simulated()) return REAL(pthread_once)(once, routine);
  // The library's own numbers: 1 is being done, 2 is done.
  while (*once == 1) block_on(once, kNever);
  if (*once == 2) return 0;
  *once = 1;
  try {
    routine();
  } catch (...) {
    *once = 0;
    notify_all(once);
    throw;
  }
  *once = 2;
  notify_all(once);
  return 0;
}

int sched_yield() noexcept {
  if (!is_simulated()) return REAL(sched_yield)();
  yield();
  return 0;
}
int sched_getaffinity(pid_t process, std::size_t size, cpu_set_t* set) noexcept {
  if (!is_simulated()) return REAL(sched_getaffinity)(process, size, set);
  std::memset(set, 0, size);
  CPU_SET(0, set);
  return 0;
}
int get_nprocs() noexcept { return is_simulated() ? 1 : REAL(get_nprocs)(); }

long syscall(long number, ...) noexcept {
  va_list arguments;
  va_start(arguments, number);
  long given[6];
  for (long& one : given) one = va_arg(arguments, long);
  va_end(arguments);
  if (is_simulated() && number == SYS_futex) {
    return futex(reinterpret_cast<std::uint32_t*>(given[0]), static_cast<int>(given[1]),
                 static_cast<std::uint32_t>(given[2]), reinterpret_cast<const timespec*>(given[3]));
  }
  return real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!is_simulated()) return REAL(clock_gettime)(clock, time);
  world().now += kLook;
  *time = spec_of(world().now + clock_offset(clock));
  return 0;
}
int gettimeofday(timeval* __restrict time, void* __restrict zone) noexcept {
  if (!is_simulated()) return REAL(gettimeofday)(time, zone);
  const timespec now = spec_of(world().now + clock_offset(CLOCK_REALTIME));
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}
time_t time(time_t* out) noexcept {
  if (!is_simulated()) return REAL(time)(out);
  const time_t now = (world().now + clock_offset(CLOCK_REALTIME)) / kSecond;
  if (out != nullptr) *out = now;
  return now;
}
int nanosleep(const timespec* span, timespec* left) {
  if (!is_simulated()) return REAL(nanosleep)(span, left);
  const Time until = after(span);
  while (world().now < until) block(until);
  return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* span, timespec* left) {
  if (!is_simulated()) return REAL(clock_nanosleep)(clock, flags, span, left);
  const Time until = (flags & TIMER_ABSTIME) != 0 ? time_of(clock, span) : after(span);
  while (world().now < until) block(until);
  return 0;
}
int usleep(useconds_t span) {
  if (!is_simulated()) return REAL(usleep)(span);
  const Time until = world().now + span * kMicrosecond;
  while (world().now < until) block(until);
  return 0;
}

pid_t getpid() noexcept {
  // As processes of one machine have them: a task that is started again has another.
  return is_simulated() ? 1000 + self().process : REAL(getpid)();
}

}  // extern "C"
