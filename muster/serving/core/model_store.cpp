#include "muster/serving/core/model_store.h"

#include <random>
#include <utility>

#include "muster/serving/core/model_manager_internal.h"
#include "muster/serving/core/model_table_internal.h"
#include "muster/serving/listener/event_loop.h"

namespace muster::serving {

std::string_view name_of(VersionState state) {
  switch (state) {
    case VersionState::kUnknown:
      return "UNKNOWN";
    case VersionState::kStart:
      return "START";
    case VersionState::kLoading:
      return "LOADING";
    case VersionState::kAvailable:
      return "AVAILABLE";
    case VersionState::kUnloading:
      return "UNLOADING";
    case VersionState::kEnd:
      return "END";
  }
  return "UNKNOWN";
}

namespace {

// Threads draw from generators of their own.
std::uint64_t random_draw() {
  thread_local std::mt19937_64 random(std::random_device{}());
  return random();
}

}  // namespace

struct ModelStore::Impl {
  explicit Impl(StoreOptions given)
      : options(std::move(given)),
        slots(std::make_shared<ExecutionSlots>(options.slots, options.loop, options.divide,
                                               options.weights)) {}

  const StoreOptions options;
  const std::shared_ptr<ExecutionSlots> slots;
  ModelTable table{options};
  // Last, so that its thread ends first.
  ModelManager manager{options, slots, table};
};

ModelStore::ModelStore(StoreOptions options) {
  if (!options.loop) options.loop = std::make_shared<EventLoop>();
  impl_ = std::make_unique<Impl>(std::move(options));
}

ModelStore::~ModelStore() = default;

void ModelStore::configure(std::vector<ModelConfig> models) {
  impl_->table.configure(std::move(models));
  impl_->manager.ask();
}

std::vector<ModelConfig> ModelStore::models() const { return impl_->table.models(); }

void ModelStore::set_labels(const std::string& model,
                            std::map<std::string, std::int64_t, std::less<>> labels) {
  impl_->table.set_labels(model, std::move(labels));
}

bool ModelStore::wait_until_settled(const Deadline& deadline) const {
  return impl_->manager.wait_for_all(deadline);
}

void ModelStore::poll() { impl_->manager.wait_for(impl_->manager.ask()); }

std::int64_t ModelStore::version_of_label(std::string_view model, const std::string& label) const {
  return impl_->table.version_of_label(model, label);
}

ModelVersionPtr ModelStore::find(std::string_view model, const VersionChoice& choice) const {
  return impl_->table.find(model, choice);
}

ModelVersionPtr ModelStore::draw(std::string_view model, const VersionChoice& choice) const {
  return impl_->table.find(model, choice, random_draw());
}

std::map<std::string, std::vector<std::pair<std::int64_t, double>>> ModelStore::shares() const {
  return impl_->table.shares();
}

std::vector<VersionStatus> ModelStore::status(std::string_view model) const {
  return impl_->table.status(model);
}

std::vector<ModelVersionPtr> ModelStore::available() const { return impl_->table.available(); }
bool ModelStore::ready() const { return impl_->table.ready(); }
std::size_t ModelStore::slots() const { return impl_->slots->count(); }
const std::shared_ptr<EventLoop>& ModelStore::loop() const { return impl_->options.loop; }
const std::shared_ptr<ResponseCache>& ModelStore::cache() const { return impl_->options.cache; }

}  // namespace muster::serving
