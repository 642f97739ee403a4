#include <memory>

#include "muster/platform/stores/register_stores.h"
#include "muster/platform/stores/store_scheme.h"

namespace muster {
namespace stores {

// Schemes of the table that CMakeLists.txt writes.
std::vector<StoreScheme> store_schemes();

}  // namespace stores

void register_stores() {
  const stores::SharedTransfers shared{.transfers = std::make_shared<stores::Transfers>(),
                                       .cache = std::make_shared<stores::DiskCache>()};
  for (const stores::StoreScheme& scheme : stores::store_schemes()) {
    const std::shared_ptr<FileSystem> file_system = scheme.make(shared);
    for (const std::string& name : scheme.names) register_file_system(name, file_system);
  }
}

}  // namespace muster
