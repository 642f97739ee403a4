#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/recorder.h"

namespace muster::compiler {

/// Changes where a compiled step may leave other bits than before.
inline constexpr const char* kCompilerVersion = "1";

/// A step that runs compiled where it can, and as it is where it cannot. Belongs to one thread.
///
/// The first step of every layout of inputs is recorded, and compiled at once: what it leaves is
/// what the compiled graph made, so bits do not depend on how many steps came before. It is held to
/// the eager step: the graph as it was recorded, and the compiled one, must leave the same values.
/// The second step is recorded again, and must make the same operations of the same memory. Where
/// one of these fails that layout of inputs runs eagerly from then on, and a warning says why.
///
/// Memory that is there before a step (variables, gradients, statistics, constants) is that of the
/// recording, and kept alive: after a module was given other memory, by to() or set_data(), the
/// step needs a new one of these.
class CompiledStep {
 public:
  struct Options {
    /// Where the step is on a GPU it is also fused: see may_fuse.
    PassOptions passes{};
    bool may_fuse = true;
    /// Name of the step, for the log.
    std::string name = "a step";
    /// The largest relative error, as a ratio of norms, between what the eager step and the
    /// compiled one leave in a tensor; or four times what rounding alone makes of it, where that is
    /// more.
    double tolerance = 0.05;
    /// Layouts of inputs that are compiled; those that come later run eagerly.
    std::size_t layouts = 8;
    /// Whether it tells the log what is compiled, and what is not.
    bool says = true;
  };
  explicit CompiledStep(Options options);
  ~CompiledStep();
  CompiledStep(CompiledStep&&) noexcept;

  /// One step. `seed` brings libtorch's generators where the step begins; it may be empty, and is
  /// called before each time that the step runs, except for compiled ones that draw nothing.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const Step& step,
                              const std::function<void()>& seed = {});

  /// Whether inputs of this layout run compiled now.
  bool is_compiled(const std::vector<at::Tensor>& inputs) const;
  /// Whether inputs of this layout are not recorded any more: a step of them only gives work to its
  /// device, and may be captured.
  bool is_settled(const std::vector<at::Tensor>& inputs) const;
  /// How many layouts of inputs it has seen, at most Options::layouts.
  std::size_t layouts() const;
  /// Another number whenever explain() tells something else.
  std::size_t revision() const;
  /// For people: for every layout what each pass did, what is left, how much memory it takes, or
  /// why it is not compiled.
  std::string explain() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::compiler
