#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace muster {

/// Which element this is, wherever it travels: the pass over the data it belongs to, and its number
/// at the source. Unique within a stream, and the same in every run.
struct Origin {
  std::uint64_t epoch = 0;
  std::uint64_t ordinal = 0;

  auto operator<=>(const Origin&) const = default;
};

/// A value and where it came from.
template <typename T>
struct Element {
  Element() = default;
  Element(T its_value, Origin its_origin) : value(std::move(its_value)), origin(its_origin) {}
  /// In place, from what fits registers: a copy made of two halves waits for both to be written.
  Element(T its_value, std::uint64_t epoch, std::uint64_t ordinal)
      : value(std::move(its_value)), origin{epoch, ordinal} {}

  T value;
  Origin origin;
};

/// A failure that replaces the element it prevented: before `elements[before]`.
struct Failure {
  std::size_t before = 0;
  std::exception_ptr error{};
};

/// Unit that stages hand to each other: a row of events, each an element or a failure, in order.
/// Chunks spread the cost of a virtual call or a queue over many elements.
template <typename T>
class Chunk {
 public:
  std::size_t events() const { return elements_.size() + failures_.size(); }
  bool empty() const { return elements_.empty() && failures_.empty(); }
  void clear() {
    elements_.clear();
    failures_.clear();
  }
  void reserve(std::size_t elements) { elements_.reserve(elements); }

  void add(T value, Origin origin) {
    elements_.emplace_back(std::move(value), origin.epoch, origin.ordinal);
  }
  void add(Element<T> element) { add(std::move(element.value), element.origin); }
  void fail(std::exception_ptr error) { failures_.push_back({elements_.size(), std::move(error)}); }

  const std::vector<Element<T>>& elements() const { return elements_; }
  std::vector<Element<T>>& elements() { return elements_; }
  const std::vector<Failure>& failures() const { return failures_; }
  std::vector<Failure>& failures() { return failures_; }

  /// Hands every event to one of the two functions, in order, which may move it out. Failures are
  /// moved, so that an exception has one owner, on one thread at a time.
  template <typename OnElement, typename OnFailure>
  void drain(OnElement&& on_element, OnFailure&& on_failure) {
    std::size_t done = 0;
    for (Failure& failure : failures_) {
      for (; done < failure.before; ++done) on_element(elements_[done]);
      on_failure(std::move(failure.error));
    }
    for (; done < elements_.size(); ++done) on_element(elements_[done]);
  }

 private:
  std::vector<Element<T>> elements_;
  std::vector<Failure> failures_;
};

}  // namespace muster
