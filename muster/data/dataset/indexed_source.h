#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/data/dataset/stage.h"

namespace muster {

/// A source whose elements are a function of their number: vectors and ranges. `At` gives element
/// i.
template <typename T, typename At>
class IndexedSource final : public Stage<T> {
 public:
  /// `kind` lives forever.
  IndexedSource(std::string_view kind, std::uint64_t size, At at)
      : kind_(kind), size_(size), at_(std::move(at)) {}

  std::string_view kind() const override { return kind_; }
  std::string label() const override { return fmt::format("{}({})", kind_, size_); }
  std::optional<std::uint64_t> size() const override { return size_; }

  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  AccessOrObstacle<T> random_access(const EpochContext& context) const override {
    return {std::make_unique<Access>(*this, context.epoch), {}};
  }
  std::unique_ptr<KnownPass<T>> known_pass(const EpochContext& context) const override {
    return std::make_unique<Access>(*this, context.epoch);
  }
  std::vector<Element<T>> collect(const EpochContext&,
                                  std::span<const Origin> origins) const override {
    std::vector<Element<T>> elements;
    elements.reserve(origins.size());
    for (const Origin& origin : origins) {
      if (origin.ordinal >= size_) throw_missing_element(*this, origin);
      elements.push_back({at_(origin.ordinal), origin});
    }
    return elements;
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const IndexedSource& source, const EpochContext& context)
        : StageIterator<T>(source, context), source_(source), epoch_(context.epoch) {}

    std::uint64_t skip(std::uint64_t events) override {
      const std::uint64_t step = std::min(events, source_.size_ - next_);
      next_ += step;
      return step;
    }

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      const std::uint64_t end = next_ + std::min<std::uint64_t>(most, source_.size_ - next_);
      for (; next_ < end; ++next_) out.add(source_.at_(next_), Origin{epoch_, next_});
    }
    void do_save(PositionWriter& writer) const override { writer.number(next_); }
    void do_restore(PositionReader& reader) override { next_ = source_.read_place(reader); }

   private:
    const IndexedSource& source_;
    std::uint64_t epoch_;
    std::uint64_t next_ = 0;
  };

  class Access final : public KnownPass<T> {
   public:
    Access(const IndexedSource& source, std::uint64_t epoch) : source_(source), epoch_(epoch) {}
    std::uint64_t size() const override { return source_.size_; }
    Element<T> at(std::uint64_t place) override {
      return {source_.at_(place), Origin{epoch_, place}};
    }
    Origin origin(std::uint64_t place) const override { return {epoch_, place}; }
    std::uint64_t place(Origin origin) const override {
      if (origin.ordinal >= source_.size_) throw_missing_element(source_, origin);
      return origin.ordinal;
    }
    void save(PositionWriter& writer, std::uint64_t given) const override {
      writer.stage(source_.kind_);
      writer.number(given);
    }
    std::uint64_t restore(PositionReader& reader) const override {
      reader.expect(source_.kind_);
      return source_.read_place(reader);
    }

   private:
    const IndexedSource& source_;
    std::uint64_t epoch_;
  };

  std::uint64_t read_place(PositionReader& reader) const {
    const std::uint64_t place = reader.number();
    if (place > size_) {
      throw FailedPrecondition("position is at element {} of {}, which has {} now", place, kind_,
                               size_);
    }
    return place;
  }

  std::string_view kind_;
  std::uint64_t size_;
  At at_;
};

template <typename T, typename At>
std::shared_ptr<const Stage<T>> indexed_source(std::string_view kind, std::uint64_t size, At at) {
  return std::make_shared<IndexedSource<T, At>>(kind, size, std::move(at));
}

}  // namespace muster
