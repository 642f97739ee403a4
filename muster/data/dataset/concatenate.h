#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/dataset/stage.h"

namespace muster {

/// One stream after another. The branch is packed into the ordinal, below the branch's own.
template <typename T>
class ConcatenateStage final : public Stage<T> {
 public:
  explicit ConcatenateStage(std::vector<std::shared_ptr<const Stage<T>>> branches)
      : branches_(std::move(branches)) {
    if (branches_.empty()) throw InvalidArgument("concatenate needs one dataset at least");
  }

  std::string_view kind() const override { return "concatenate"; }
  std::string label() const override { return fmt::format("concatenate({})", branches_.size()); }
  std::optional<std::uint64_t> size() const override {
    std::uint64_t all = 0;
    for (const auto& branch : branches_) {
      const auto size = branch->size();
      if (!size || __builtin_add_overflow(all, *size, &all)) return std::nullopt;
    }
    return all;
  }
  std::string where(Origin origin) const override {
    return branches_[branch_of(origin)]->where(inner(origin));
  }
  std::uint64_t opening_epoch(Origin origin) const override {
    return branches_[branch_of(origin)]->opening_epoch(inner(origin));
  }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  AccessOrObstacle<T> random_access(const EpochContext& context) const override {
    auto all = std::make_unique<Access>(*this);
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      AccessOrObstacle<T> one = branches_[i]->random_access(context.input(i));
      if (one.access == nullptr) return one;
      all->add(std::move(one.access));
    }
    return {std::move(all), {}};
  }
  std::vector<Element<T>> collect(const EpochContext& context,
                                  std::span<const Origin> origins) const override {
    std::vector<std::vector<Origin>> wanted(branches_.size());
    for (const Origin& origin : origins) wanted[branch_of(origin)].push_back(inner(origin));
    std::vector<std::vector<Element<T>>> found(branches_.size());
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      if (!wanted[i].empty()) found[i] = branches_[i]->collect(context.input(i), wanted[i]);
    }
    std::vector<std::size_t> next(branches_.size(), 0);
    std::vector<Element<T>> elements;
    elements.reserve(origins.size());
    for (const Origin& origin : origins) {
      const std::size_t branch = branch_of(origin);
      elements.push_back({std::move(found[branch][next[branch]++].value), origin});
    }
    return elements;
  }

 private:
  std::size_t branch_of(Origin origin) const { return origin.ordinal % branches_.size(); }
  Origin inner(Origin origin) const { return {origin.epoch, origin.ordinal / branches_.size()}; }
  Origin outer(Origin origin, std::size_t branch) const {
    return {origin.epoch, checked_pack(origin.ordinal, branches_.size(), branch, kind())};
  }

  class Pass final : public StageIterator<T> {
   public:
    Pass(const ConcatenateStage& stage, const EpochContext& context)
        : StageIterator<T>(stage, context), stage_(stage), context_(context) {
      open_branch();
    }

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      while (input_ && input_->pull(out, most) == 0) {
        ++branch_;
        open_branch();
      }
      for (Element<T>& element : out.elements()) {
        element.origin = stage_.outer(element.origin, branch_);
      }
    }
    void do_save(PositionWriter& writer) const override {
      writer.number(branch_);
      if (input_) input_->save(writer);
    }
    void do_restore(PositionReader& reader) override {
      branch_ = reader.number();
      open_branch();
      if (input_) input_->restore(reader);
    }

   private:
    void open_branch() {
      input_.reset();
      if (branch_ < stage_.branches_.size()) {
        input_ = stage_.branches_[branch_]->open(context_.input(branch_));
      }
    }

    const ConcatenateStage& stage_;
    EpochContext context_;
    std::uint64_t branch_ = 0;
    std::unique_ptr<StageIterator<T>> input_;
  };

  class Access final : public RandomAccess<T> {
   public:
    explicit Access(const ConcatenateStage& stage) : stage_(stage) {}
    void add(std::unique_ptr<RandomAccess<T>> access) {
      ends_.push_back(size() + access->size());
      branches_.push_back(std::move(access));
    }
    std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
    Element<T> at(std::uint64_t place) override {
      const auto end = std::upper_bound(ends_.begin(), ends_.end(), place);
      const auto branch = static_cast<std::size_t>(end - ends_.begin());
      const std::uint64_t begin = branch == 0 ? 0 : ends_[branch - 1];
      Element<T> element = branches_[branch]->at(place - begin);
      element.origin = stage_.outer(element.origin, branch);
      return element;
    }

   private:
    const ConcatenateStage& stage_;
    std::vector<std::unique_ptr<RandomAccess<T>>> branches_;
    std::vector<std::uint64_t> ends_;
  };

  std::vector<std::shared_ptr<const Stage<T>>> branches_;
};

}  // namespace muster
