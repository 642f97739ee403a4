#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "muster/nn/optim/clipping.h"
#include "muster/nn/optim/tensor_part.h"
#include "muster/nn/optim/variables.h"

namespace muster {

/// Norms of dense gradients of which several holders have a range each, with the bits of one
/// holder: a block that is in one range is summed by its holder; one that ranges share (there are
/// at most as many as cuts) is sent as it is and summed by all. What a holder tells the others is
/// its record, whose size all of them know.
///
///   norms.write(gradients, own, record_of(own));
///   ... every holder gets the others' records ...
///   SquareSums sums = norms.sums(gradients, record_of);
class NormShards {
 public:
  /// `ranges` are those of the holders; together they are Variables::flat(), each element once. The
  /// variables outlive this.
  NormShards(const Variables& variables, std::vector<FlatRange> ranges);

  /// Memory for a holder's record: float32 [size_of_record(holder)].
  using RecordOf = std::function<at::Tensor(std::size_t holder)>;

  std::int64_t size_of_record(std::size_t holder) const { return sizes_[holder]; }
  void write(const Gradients& gradients, std::size_t holder, const at::Tensor& record) const;
  /// Sums over all holders' gradients. Tables are in every holder whole.
  SquareSums sums(const Gradients& gradients, const RecordOf& record_of) const;

 private:
  /// Elements of a block that a holder has.
  struct Piece {
    std::size_t holder = 0;
    FlatRange elements{};
    /// Its place in the record.
    std::int64_t place = 0;
  };
  struct Block {
    std::size_t variable = 0;
    std::int64_t number = 0;
    std::vector<Piece> pieces{};

    bool is_summed_by_holder() const { return pieces.size() == 1; }
  };
  void add_blocks(std::size_t variable, const std::vector<std::size_t>& holders,
                  const std::vector<FlatRange>& ranges);

  const Variables& variables_;
  std::vector<std::int64_t> sizes_;
  /// Those of dense variables.
  std::vector<Block> blocks_;
};

}  // namespace muster
