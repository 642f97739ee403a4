#include "muster/base/error.h"
#include "muster/train/boosted_trees/boosted_trees_booster_internal.h"

namespace muster::internal {
namespace {

[[noreturn]] void refuse() {
  throw Unimplemented(
      "boosted trees need libxgboost, and this muster was built without it: install "
      "libxgboost-dev, run cmake again, and build");
}

}  // namespace

void require_tree_booster() { refuse(); }

BoosterRows::BoosterRows(const SparseRows&) { refuse(); }
BoosterRows::~BoosterRows() = default;

TreeBooster::TreeBooster(const BoosterRows&, const Parameters&) { refuse(); }
TreeBooster::TreeBooster(std::string_view) { refuse(); }
TreeBooster::~TreeBooster() = default;
void TreeBooster::set(const Parameters&) { refuse(); }
void TreeBooster::boost(const BoosterRows&, std::span<float>, std::span<float>) { refuse(); }
std::vector<float> TreeBooster::margins(const BoosterRows&) const { refuse(); }
std::vector<float> TreeBooster::contributions(const BoosterRows&) const { refuse(); }
std::vector<double> TreeBooster::total_gains() const { refuse(); }
std::int64_t TreeBooster::trees() const { refuse(); }
std::int64_t TreeBooster::width() const { refuse(); }
std::string TreeBooster::to_bytes() const { refuse(); }

}  // namespace muster::internal
