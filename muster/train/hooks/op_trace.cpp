#include "muster/train/hooks/op_trace.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

struct Span {
  std::string name{};
  const char* category = "";
  std::uint64_t thread = 0;
  Clock::time_point begin{};
  Clock::time_point end{};
  /// Forward operators and the backward functions they make have the same number, which counts up
  /// in each thread; -1 without autograd.
  std::int64_t sequence = -1;
  /// Thread of the forward operator, for a backward function; else 0.
  std::uint64_t forward_thread = 0;
};

class SpanBuffer {
 public:
  void add(const Span& span) {
    const std::lock_guard lock(mutex_);
    spans_.push_back(span);
  }
  std::vector<Span> sorted() const {
    const std::lock_guard lock(mutex_);
    std::vector<Span> spans = spans_;
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span& a, const Span& b) { return a.begin < b.begin; });
    return spans;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

// The callbacks of libtorch are bare functions, so who records now must be known to the process.
class Recorders {
 public:
  static Recorders& of_process() {
    static auto* recorders = new Recorders;  // outlives threads that still run operators at exit
    return *recorders;
  }

  void add(std::shared_ptr<SpanBuffer> buffer) {
    const std::lock_guard lock(mutex_);
    if (buffers_.empty()) callback_ = add_callback();
    buffers_.push_back(std::move(buffer));
  }

  void remove(const std::shared_ptr<SpanBuffer>& buffer) {
    const std::lock_guard lock(mutex_);
    if (std::erase(buffers_, buffer) > 0 && buffers_.empty()) at::removeCallback(callback_);
  }

  void record(const Span& span) {
    const std::lock_guard lock(mutex_);
    for (const auto& buffer : buffers_) buffer->add(span);
  }

 private:
  static at::CallbackHandle add_callback();

  std::mutex mutex_;
  std::vector<std::shared_ptr<SpanBuffer>> buffers_;
  at::CallbackHandle callback_ = 0;
};

struct Begin : at::ObserverContext {
  Clock::time_point time = Clock::now();
};

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction&) {
  return std::make_unique<Begin>();
}

const char* category_of(at::RecordScope scope) {
  switch (scope) {
    case at::RecordScope::BACKWARD_FUNCTION:
      return "backward";
    case at::RecordScope::USER_SCOPE:
      return "user";
    default:
      return "operator";
  }
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto now = Clock::now();
  Recorders::of_process().record({.name = function.name(),
                                  .category = category_of(function.scope()),
                                  .thread = function.threadId(),
                                  .begin = static_cast<Begin*>(context)->time,
                                  .end = now,
                                  .sequence = function.seqNr(),
                                  .forward_thread = function.forwardThreadId()});
}

at::CallbackHandle Recorders::add_callback() {
  return at::addGlobalCallback(
      at::RecordFunctionCallback(on_begin, on_end)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {
      // Operators have ASCII names; bytes of others are shown one by one, so that the file is JSON.
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Writes the list "traceEvents". Times are in microseconds from the beginning of the trace.
class ChromeTrace {
 public:
  explicit ChromeTrace(Clock::time_point origin) : origin_(origin), process_(::getpid()) {}

  void add_span(const Span& span) {
    begin_event();
    fmt::format_to(
        std::back_inserter(json_),
        R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"sequence":{}}}}})",
        json_string(span.name), span.category, process_, span.thread, microseconds(span.begin),
        microseconds(span.end) - microseconds(span.begin), span.sequence);
  }

  void add_arrow(const Span& from, const Span& to) {
    ++arrows_;
    add_arrow_end("s", from);
    add_arrow_end("f", to);
  }

  std::string take() && { return R"({"displayTimeUnit":"ms","traceEvents":[)" + json_ + "\n]}\n"; }

 private:
  void begin_event() { json_ += json_.empty() ? "\n" : ",\n"; }

  void add_arrow_end(const char* phase, const Span& span) {
    begin_event();
    fmt::format_to(
        std::back_inserter(json_),
        R"({{"ph":"{}","bp":"e","id":{},"name":"backward","cat":"dataflow","pid":{},"tid":{},"ts":{:.3f}}})",
        phase, arrows_, process_, span.thread, microseconds(span.begin));
  }

  double microseconds(Clock::time_point time) const {
    return std::chrono::duration<double, std::micro>(time - origin_).count();
  }

  Clock::time_point origin_;
  int process_;
  std::int64_t arrows_ = 0;
  std::string json_;
};

void add_dataflow(const std::vector<Span>& spans, ChromeTrace& trace) {
  // An operator begins with the number that the next backward function will get. Operators that
  // make none leave it to the following one, so the last one to begin with a number is its owner.
  std::map<std::pair<std::uint64_t, std::int64_t>, const Span*> forward;
  for (const Span& span : spans) {
    if (span.sequence >= 0 && span.forward_thread == 0) {
      forward[{span.thread, span.sequence}] = &span;
    }
  }
  for (const Span& span : spans) {
    if (span.sequence < 0 || span.forward_thread == 0) continue;
    const auto found = forward.find({span.forward_thread, span.sequence});
    if (found != forward.end()) trace.add_arrow(*found->second, span);
  }
}

}  // namespace

struct OpTrace::Impl : SpanBuffer {
  Clock::time_point origin = Clock::now();
};

OpTrace::OpTrace() : impl_(std::make_shared<Impl>()) { Recorders::of_process().add(impl_); }

OpTrace::~OpTrace() { stop(); }

void OpTrace::stop() { Recorders::of_process().remove(impl_); }

std::string OpTrace::chrome_json(bool show_dataflow) const {
  const std::vector<Span> spans = impl_->sorted();
  ChromeTrace trace(impl_->origin);
  for (const Span& span : spans) trace.add_span(span);
  if (show_dataflow) add_dataflow(spans, trace);
  return std::move(trace).take();
}

}  // namespace muster
