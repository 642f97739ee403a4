#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/plan_internal.h"
#include "muster/saved_model/executor/recycled_tensors_internal.h"

namespace muster::executor {

/// The operation that takes dead values.
inline bool takes_dead(std::string_view op) { return op == "Merge" || op == "RefMerge"; }

/// The values of one run of a plan, and what of the budget they hold.
class Plan::Frame {
 public:
  Frame(const Plan& plan, Slots arguments, Budget& budget)
      : plan_(plan), budget_(budget), places_(plan.steps_.size() + 1) {
    if (plan_.has_dead_) dead_.resize(places_.size(), false);
    places_[0] = std::move(arguments);
    budget_.hold_free(places_[0]);
  }

  const Slot& at(const Source& source) const {
    static const Slot kDead{Dead{}};
    const bool folded = source.place == kFolded;
    if (!folded && is_dead(source.place)) return kDead;
    const Slots& held = folded ? plan_.folded_ : places_[source.place];
    if (source.output < held.size()) return held[source.output];
    throw InvalidArgument(
        "there is no output {} of {}", source.output,
        source.place == 0 ? "the arguments" : plan_.steps_[source.place - 1].name);
  }

  // Whether a step's value is dead because one that it needs is.
  bool inherits_death(const Step& step, const SlotRefs& inputs) const {
    if (!plan_.has_dead_) return false;
    if (std::ranges::any_of(step.controls, [&](auto place) { return is_dead(place); })) return true;
    std::size_t dead = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      dead += std::holds_alternative<Dead>(inputs[i]) ? 1 : 0;
    }
    return takes_dead(step.op) ? dead == inputs.size() : dead > 0;
  }

  void kill(std::size_t place) { dead_[place] = true; }

  void set(std::size_t place, Slots outputs) { places_[place] = std::move(outputs); }

  void release(std::size_t place) {
    budget_.release(places_[place]);
    for (Slot& slot : places_[place]) {
      if (auto* tensor = std::get_if<at::Tensor>(&slot)) recycle(std::move(*tensor));
    }
    places_[place].clear();
  }

  Slots finish() {
    Slots out;
    for (const Source& fetch : plan_.fetches_) {
      out.push_back(at(fetch));
      if (std::holds_alternative<Dead>(out.back())) {
        throw InvalidArgument("output {} is in the branch of a conditional that was not taken",
                              out.size() - 1);
      }
    }
    for (const Slots& held : places_) budget_.release(held);
    return out;
  }

 private:
  bool is_dead(std::size_t place) const { return !dead_.empty() && dead_[place]; }

  const Plan& plan_;
  Budget& budget_;
  std::vector<Slots> places_;
  std::vector<bool> dead_;
};

}  // namespace muster::executor
