#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "muster/serving/grpc/grpc_connection_internal.h"

namespace muster::serving {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kWriteBytes = 64 << 10;
// Capacity of the output buffer that a connection without a call may keep.
constexpr std::size_t kMostIdleBytes = 8 << 10;
// How long a client may take to say that it has seen a GOAWAY.
constexpr milliseconds kGoawayTime{1'000};

}  // namespace

GrpcConnection::GrpcConnection(AcceptedSocket socket, std::shared_ptr<const GrpcShared> shared)
    : ClientConnection(std::move(socket.open)),
      shared_(std::move(shared)),
      descriptor_(shared_->loop->io().get_executor(), socket.descriptor.number()),
      is_from_this_host_(socket.is_from_this_host) {
  socket.descriptor.release();
  if (socket.tls) tls_.emplace(std::move(socket.tls));
}

GrpcConnection::~GrpcConnection() {
  close_now();
  session_.reset();
}

void GrpcConnection::drain() {
  std::unique_lock lock(mutex_);
  if (!closed_) begin_goaway(lock);
  leave_mutex(lock);
}

void GrpcConnection::close() {
  std::unique_lock lock(mutex_);
  close_now();
  leave_mutex(lock);
}

void GrpcConnection::look(Clock::time_point now) {
  std::unique_lock lock(mutex_);
  if (!closed_) check_times(now, lock);
  leave_mutex(lock);
}

void GrpcConnection::wait_to_read() {
  descriptor_.async_wait(Descriptor::wait_read, [self = self()](boost::system::error_code error) {
    self->on_readable(error);
  });
}

void GrpcConnection::on_readable(boost::system::error_code error) {
  thread_local std::vector<char> buffer(kReadBytes);
  bool goes_on = false;
  std::unique_lock lock(mutex_);
  if (error) close_now();
  if (!closed_) {
    const ssize_t count =
        ::recv(descriptor_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) {
      goes_on = receive({buffer.data(), static_cast<std::size_t>(count)}, lock);
    } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      goes_on = true;
    } else {
      close_now();
    }
  }
  if (goes_on) wait_to_read();
  leave_mutex(lock);
}

// Under the mutex. False when the connection is over.
bool GrpcConnection::receive(std::string_view bytes, std::unique_lock<std::mutex>& lock) {
  if (!session_) make_session();
  bool goes_on = true;
  if (tls_) {
    thread_local std::string plain;
    plain.clear();
    goes_on = tls_->receive(bytes, plain);
    if (!plain.empty()) goes_on = session_->receive(plain) && goes_on;
  } else {
    goes_on = session_->receive(bytes);
  }
  if (session_->streams() > 0) times_.last_call = Clock::now();
  ends_after_flush_ = ends_after_flush_ || !goes_on;
  flush(lock);
  return !closed_;
}

void GrpcConnection::make_session() {
  session_.emplace(shared_->options.http2,
                   [this] { return std::make_shared<GrpcServerCall>(self()); });
}

void GrpcConnection::flush_deferred() {
  std::unique_lock lock(mutex_);
  is_flush_deferred_ = false;
  flush(lock);
  leave_mutex(lock);
}

// Under the mutex; gives it up while bytes are sent.
void GrpcConnection::flush(std::unique_lock<std::mutex>& lock) {
  if (closed_ || std::exchange(is_sending_, true)) return;
  while (fill_output()) {
    const int descriptor = descriptor_.native_handle();
    lock.unlock();
    const ssize_t count = ::send(descriptor, output_.data() + output_sent_,
                                 output_.size() - output_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    const int error = errno;
    lock.lock();
    if (closed_) return;
    if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return wait_to_write();
    if (count < 0 && error != EINTR) return close_now();
    if (count > 0) {
      output_sent_ += static_cast<std::size_t>(count);
      times_.last_progress = Clock::now();
    }
  }
  is_sending_ = false;
  if (output_.capacity() > kMostIdleBytes && session_->streams() == 0) std::string().swap(output_);
  if (ends_after_flush_ || session_->is_over()) close_now();
}

// False when there is nothing to be sent.
bool GrpcConnection::fill_output() {
  if (output_sent_ < output_.size()) return true;
  output_.clear();
  output_sent_ = 0;
  if (!tls_) {
    session_->take_output(output_, kWriteBytes);
    return !output_.empty();
  }
  if (tls_->is_open()) {
    thread_local std::string plain;
    plain.clear();
    session_->take_output(plain, kWriteBytes);
    tls_->send(plain);
  }
  tls_->take_output(output_);
  return !output_.empty();
}

// is_sending_ stays set: the handler that is woken continues.
void GrpcConnection::wait_to_write() {
  descriptor_.async_wait(Descriptor::wait_write, [self = self()](boost::system::error_code error) {
    std::unique_lock lock(self->mutex_);
    self->is_sending_ = false;
    if (error) self->close_now();
    self->flush(lock);
    self->leave_mutex(lock);
  });
}

// Under the mutex. The descriptor stays as long as it may be used; what waits for it is woken.
void GrpcConnection::close_now() {
  if (std::exchange(closed_, true)) return;
  if (session_) session_->close();
  ::shutdown(descriptor_.native_handle(), SHUT_RDWR);
  leave();
}

void GrpcConnection::begin_goaway(std::unique_lock<std::mutex>& lock) {
  if (!session_) return close_now();
  if (session_->goaway_begun()) return;
  times_.goaway_begin = Clock::now();
  session_->begin_goaway();
  if (is_draining()) {
    std::vector<std::shared_ptr<Http2Stream>> streams;
    for (const auto& entry : session_->open()) streams.push_back(entry.second);
    for (const auto& stream : streams) static_cast<GrpcServerCall&>(*stream).on_drain();
  }
  flush(lock);
}

void GrpcConnection::check_times(Clock::time_point now, std::unique_lock<std::mutex>& lock) {
  const GrpcTransportOptions& options = shared_->options;
  if (!session_ || (tls_ && !tls_->is_open())) {
    if (now - times_.begin > options.handshake_timeout) close_now();
    return;
  }
  if (session_->sent_bytes() != times_.seen_bytes || !session_->has_waiting_data()) {
    times_.seen_bytes = session_->sent_bytes();
    if (!is_sending_) times_.last_progress = now;
  }
  if (now - times_.last_progress > options.stall_timeout) return close_now();
  reset_stalled(now);
  if (session_->streams() > 0) times_.last_call = now;
  const bool is_idle = options.max_idle && now - times_.last_call > *options.max_idle;
  const bool is_old = options.max_age && now - times_.begin > *options.max_age;
  if (is_idle || is_old || is_draining()) begin_goaway(lock);
  if (closed_) return;
  if (session_->goaway_begun()) {
    if (now - times_.goaway_begin > kGoawayTime) session_->finish_goaway();
    if (is_old && options.max_age_grace && now - times_.goaway_begin > *options.max_age_grace) {
      return close_now();
    }
  }
  if (options.keepalive_time) keep_alive(now);
  if (!closed_) flush(lock);
}

void GrpcConnection::reset_stalled(Clock::time_point now) {
  std::vector<std::shared_ptr<Http2Stream>> stalled;
  for (const auto& entry : session_->open()) {
    if (static_cast<const GrpcServerCall&>(*entry.second)
            .is_stalled(now, shared_->options.stall_timeout)) {
      stalled.push_back(entry.second);
    }
  }
  for (const auto& stream : stalled) session_->reset(*stream);
}

void GrpcConnection::keep_alive(Clock::time_point now) {
  const GrpcTransportOptions& options = shared_->options;
  if (times_.pinged && session_->last_pong() < *times_.pinged) {
    if (now - *times_.pinged > options.keepalive_timeout) close_now();
    return;
  }
  if (now - std::max(session_->last_pong(), times_.begin) < *options.keepalive_time) return;
  times_.pinged = now;
  session_->ping();
}

// Gives up the mutex, and does what calls have left to be done without it.
void GrpcConnection::leave_mutex(std::unique_lock<std::mutex>& lock) {
  if (ready_.empty() && cancelled_.empty()) return lock.unlock();
  const auto ready = std::exchange(ready_, {});
  const auto cancelled = std::exchange(cancelled_, {});
  lock.unlock();
  for (const auto& act : cancelled) act();
  dispatch(ready);
}

void GrpcConnection::dispatch(const std::vector<std::shared_ptr<GrpcServerCall>>& calls) const {
  for (const auto& call : calls) {
    if (call->is_short()) {
      call->run();
    } else if (!shared_->threads->run([call] { call->run(); })) {
      call->finish(
          {ErrorCode::kResourceExhausted, "too many calls wait to be answered; try again later"});
    }
  }
}

}  // namespace muster::serving
