#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "muster/base/thread_pool.h"
#include "muster/data/dataset/map.h"
#include "muster/data/dataset/read_ahead_iterator.h"

namespace muster {

/// A map in threads of its own. The stream is the same as a serial map's, unless it is unordered.
template <typename In, typename Out>
class ParallelMapStage final : public MapStageBase<In, Out> {
 public:
  ParallelMapStage(std::shared_ptr<const Stage<In>> input,
                   std::unique_ptr<const Mapper<In, Out>> mapper, const MapOptions& options)
      : MapStageBase<In, Out>(std::move(input), std::move(mapper)),
        threads_(options.parallelism == 0 ? ThreadPool::available_processors()
                                          : options.parallelism),
        ordered_(options.ordered) {}

  std::string_view kind() const override { return "parallel_map"; }
  std::string label() const override {
    return fmt::format("{}({}{})", kind(), threads_, ordered_ ? "" : ", unordered");
  }

 protected:
  std::unique_ptr<StageIterator<Out>> pass_over(std::unique_ptr<StageIterator<In>> input,
                                                const EpochContext& context) const override {
    const auto work = [this](Chunk<In>& in, Chunk<Out>& out) {
      out.reserve(in.events());
      this->mapper().map(in, out);
    };
    constexpr std::size_t kMaxPieceElements = 2048;
    const std::size_t pieces = 2 * threads_ + 2;
    ReadAhead::Options options{.threads = threads_,
                               .ordered = ordered_,
                               .max_elements = pieces * kMaxPieceElements,
                               .max_pieces = pieces,
                               .max_piece_elements = kMaxPieceElements};
    return std::make_unique<ReadAheadIterator<In, Out, decltype(work)>>(
        *this, context, std::move(input), work, std::move(options));
  }

 private:
  std::size_t threads_;
  bool ordered_;
};

}  // namespace muster
