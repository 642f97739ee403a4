#pragma once

// The two ways to pass over a part of a stream. stage.h includes this at its end.

#include <fmt/core.h>

#include "muster/data/dataset/stage.h"

namespace muster {

/// An arithmetic progression of another access's places: what take, skip and shard see.
template <typename T>
class StridedAccess final : public RandomAccess<T> {
 public:
  StridedAccess(std::unique_ptr<RandomAccess<T>> access, std::uint64_t first, std::uint64_t stride,
                std::uint64_t most = ~std::uint64_t{0})
      : access_(std::move(access)), first_(first), stride_(stride) {
    const std::uint64_t all = access_->size();
    size_ = std::min(most, first >= all ? 0 : (all - first - 1) / stride + 1);
  }
  std::uint64_t size() const override { return size_; }
  Element<T> at(std::uint64_t place) override { return access_->at(first_ + place * stride_); }

 private:
  std::unique_ptr<RandomAccess<T>> access_;
  std::uint64_t first_;
  std::uint64_t stride_;
  std::uint64_t size_ = 0;
};

template <typename T>
AccessOrObstacle<T> stride_access(AccessOrObstacle<T> inner, std::uint64_t first,
                                  std::uint64_t stride, std::uint64_t most = ~std::uint64_t{0}) {
  if (inner.access == nullptr) return inner;
  return {std::make_unique<StridedAccess<T>>(std::move(inner.access), first, stride, most), {}};
}

/// Walks over a random access from place to place.
template <typename T>
class AccessIterator : public StageIterator<T> {
 public:
  AccessIterator(std::string_view kind, const std::string& label, const EpochContext& context,
                 std::unique_ptr<RandomAccess<T>> access)
      : StageIterator<T>(kind, label, context), access_(std::move(access)) {}

  std::uint64_t skip(std::uint64_t events) override {
    const std::uint64_t step = std::min(events, access_->size() - next_);
    next_ += step;
    return step;
  }

 protected:
  void do_pull(Chunk<T>& out, std::size_t most) override {
    const std::uint64_t end = next_ + std::min<std::uint64_t>(most, access_->size() - next_);
    while (next_ < end) {
      try {
        out.add(access_->at(next_++));
      } catch (...) {
        out.fail(std::current_exception());
      }
    }
  }
  void do_save(PositionWriter& writer) const override { writer.number(next_); }
  void do_restore(PositionReader& reader) override { go_to(reader.number()); }

  std::uint64_t place() const { return next_; }
  void go_to(std::uint64_t place) {
    if (place > access_->size()) {
      throw FailedPrecondition("position is at element {}, but there are {} now", place,
                               access_->size());
    }
    next_ = place;
  }

 private:
  std::unique_ptr<RandomAccess<T>> access_;
  std::uint64_t next_ = 0;
};

inline constexpr std::string_view kShardKind = "shard";
inline std::string label_of(const ShardOf& part) {
  return fmt::format("{}({}, {})", kShardKind, part.count, part.index);
}

/// A part by random access. Its position can be read by ShardByReading and the other way round: an
/// index may be made or removed between two runs.
template <typename T>
class ShardByAccess final : public AccessIterator<T> {
 public:
  ShardByAccess(const ShardOf& part, const EpochContext& context,
                std::unique_ptr<RandomAccess<T>> access)
      : AccessIterator<T>(kShardKind, label_of(part), context, std::move(access)) {}

 protected:
  void do_save(PositionWriter& writer) const override {
    writer.number(this->place());
    writer.nested(std::make_shared<PositionWriter>());
  }
  void do_restore(PositionReader& reader) override {
    this->go_to(reader.number());
    reader.nested();
  }
};

/// A part of a stream that can only be read from front to back.
template <typename T>
class ShardByReading final : public StageIterator<T> {
 public:
  ShardByReading(const ShardOf& part, const EpochContext& context,
                 std::unique_ptr<StageIterator<T>> input)
      : StageIterator<T>(kShardKind, label_of(part), context),
        input_(std::move(input)),
        part_(part) {}

 protected:
  void do_pull(Chunk<T>& out, std::size_t most) override {
    for (; out.events() < most; ++given_) {
      const std::uint64_t gap = part_.gap_behind(given_);
      if (gap > 0 && input_->skip(gap) < gap) return;
      if (input_->pull(one_, 1) == 0) return;
      one_.drain([&](Element<T>& element) { out.add(std::move(element)); },
                 [&](std::exception_ptr error) { out.fail(std::move(error)); });
    }
  }
  void do_save(PositionWriter& writer) const override {
    writer.number(given_);
    auto inner = std::make_shared<PositionWriter>();
    input_->save(*inner);
    writer.nested(std::move(inner));
  }
  void do_restore(PositionReader& reader) override {
    given_ = reader.number();
    PositionReader inner = reader.nested();
    if (!inner.at_end()) {
      input_->restore(inner);
    } else if (given_ > 0) {
      input_->skip(part_.index + (given_ - 1) * part_.count + 1);
    }
  }

 private:
  std::unique_ptr<StageIterator<T>> input_;
  ShardOf part_;
  std::uint64_t given_ = 0;
  Chunk<T> one_;
};

template <typename T>
std::unique_ptr<StageIterator<T>> Stage<T>::open_shard(const EpochContext& context,
                                                       const ShardOf& part) const {
  AccessOrObstacle<T> found = stride_access(random_access(context), part.index, part.count);
  if (found.access) {
    return std::make_unique<ShardByAccess<T>>(part, context, std::move(found.access));
  }
  return std::make_unique<ShardByReading<T>>(part, context, open(context.input()));
}

}  // namespace muster
