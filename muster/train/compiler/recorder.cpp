#include "muster/train/compiler/recorder.h"

#include <ATen/ops/equal.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/train/compiler/operations.h"
#include "muster/train/compiler/torch_dispatch.h"

namespace muster::compiler {
namespace {

/// A recording in the making. Operations come from one thread at a time: the step's own, or that of
/// the backward that it waits for; the mutex makes what one has noted visible to the next.
class Recorder {
 public:
  Recorder(const std::vector<at::Tensor>& inputs, RecordOptions options) : options_(options) {
    for (const at::Tensor& input : inputs) {
      if (known_.contains(input.storage().unsafeGetStorageImpl())) {
        obstacle("two inputs share memory");
      }
      const StorageId storage = new_storage(input, Storage::Kind::kInput);
      recording_.graph.inputs.push_back(recording_.graph.value(storage, geometry_of(input)));
    }
  }

  void run(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
    if (makes_view(operation, *stack)) return operation.callBoxed(stack);
    Node node{.operation = operation};
    std::vector<at::Tensor> read;
    {
      const std::lock_guard lock(mutex_);
      note_arguments(operation, *stack, node, read);
    }
    std::vector<at::Tensor> before;
    if (options_.check_schemas) before = copies(read);
    operation.callBoxed(stack);
    if (options_.check_schemas && !changes_layout(operation)) check_unchanged(node, read, before);
    const std::lock_guard lock(mutex_);
    note_results(operation, *stack, node, read);
    recording_.graph.nodes.push_back(std::move(node));
  }

  Recording take(std::vector<at::Tensor> outputs) {
    for (const at::Tensor& output : outputs) {
      recording_.graph.outputs.push_back(value_of(output));
      const auto value = recording_.graph.outputs.back();
      if (value && !is_written(*value)) obstacle("it returns memory that no operation has written");
    }
    recording_.outputs = std::move(outputs);
    return std::move(recording_);
  }

  void note(std::string why) {
    const std::lock_guard lock(mutex_);
    obstacle(std::move(why));
  }

 private:
  // An empty tensor of this step that is set to memory becomes a view of it, as cuDNN's recurrent
  // layers take their weights out of one buffer. Values know their memory, so it is no node.
  bool makes_view(const c10::OperatorHandle& operation, const torch::jit::Stack& stack) {
    if (name_of(operation) != "aten::set_") return false;
    const std::size_t arguments = operation.schema().arguments().size();
    const at::Tensor& tensor = stack[stack.size() - arguments].toTensor();
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(tensor.storage().unsafeGetStorageImpl());
    return tensor.numel() == 0 && found != known_.end() &&
           recording_.graph.storage(found->second).kind == Storage::Kind::kComputed;
  }

  void obstacle(std::string why) {
    if (recording_.obstacle.empty()) recording_.obstacle = std::move(why);
  }

  // Weak references keep addresses from being used again, and no memory.
  StorageId new_storage(const at::Tensor& tensor, Storage::Kind kind) {
    Graph& graph = recording_.graph;
    const StorageId id = graph.add_storage(kind);
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    if (kind == Storage::Kind::kExternal) graph.storages.back().memory = tensor.storage();
    known_.emplace(storage, id);
    seen_.emplace_back(tensor.storage().getWeakStorageImpl());
    written_.push_back(kind != Storage::Kind::kComputed);
    return id;
  }

  StorageId storage_of(const at::Tensor& tensor, Storage::Kind kind_of_new) {
    const auto found = known_.find(tensor.storage().unsafeGetStorageImpl());
    return found == known_.end() ? new_storage(tensor, kind_of_new) : found->second;
  }

  std::optional<ValueId> value_of(const at::Tensor& tensor,
                                  Storage::Kind kind_of_new = Storage::Kind::kExternal) {
    if (!tensor.defined()) return std::nullopt;
    if (tensor.layout() != at::kStrided || !tensor.has_storage() || tensor.is_conj() ||
        tensor.is_neg()) {
      obstacle("a tensor is not plain strided memory");
      return std::nullopt;
    }
    return recording_.graph.value(storage_of(tensor, kind_of_new), geometry_of(tensor));
  }

  void add_tensor(Argument& argument, const at::Tensor& tensor, std::vector<at::Tensor>& read) {
    argument.tensors.push_back(value_of(tensor));
    if (argument.tensors.back()) read.push_back(tensor);
  }

  Argument argument_of(const c10::IValue& given, std::vector<at::Tensor>& read) {
    if (given.isTensor()) {
      const at::Tensor& tensor = given.toTensor();
      if (is_number(tensor)) return {.constant = given};
      Argument argument{.kind = Argument::Kind::kTensor};
      add_tensor(argument, tensor, read);
      return argument;
    }
    if (given.isTensorList()) {
      Argument argument{.kind = Argument::Kind::kTensorList};
      for (const at::Tensor& tensor : given.toTensorVector()) add_tensor(argument, tensor, read);
      return argument;
    }
    if (given.isList() && has_tensors(given.toListRef())) {
      Argument argument{.kind = Argument::Kind::kTensorList, .optional_elements = true};
      for (const c10::IValue& element : given.toListRef()) {
        add_tensor(argument, element.isNone() ? at::Tensor() : element.toTensor(), read);
      }
      return argument;
    }
    return {.constant = given};
  }

  static bool has_tensors(c10::ArrayRef<c10::IValue> elements) {
    return std::ranges::any_of(elements, [](const c10::IValue& one) { return one.isTensor(); });
  }

  void note_arguments(const c10::OperatorHandle& operation, const torch::jit::Stack& stack,
                      Node& node, std::vector<at::Tensor>& read) {
    const auto& arguments = operation.schema().arguments();
    node.random = draws_random_numbers(operation, torch::jit::last(stack, arguments.size()));
    if (const auto why = obstacle_of(operation)) obstacle(*why);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const c10::IValue& given = stack[stack.size() - arguments.size() + i];
      const std::size_t first = read.size();
      node.arguments.push_back(argument_of(given, read));
      const bool changes = changes_argument(operation, i);
      std::size_t tensor = first;
      for (const auto& value : node.arguments.back().tensors) {
        if (!value) continue;
        if (changes) note_change(node, *value, read[tensor]);
        if (!changes) check_written(node, *value);
        ++tensor;
      }
    }
  }

  void note_change(Node& node, ValueId value, const at::Tensor& tensor) {
    const StorageId storage = recording_.graph.storage_of(value);
    if (recording_.graph.storage(storage).kind != Storage::Kind::kComputed) keep(storage, tensor);
    node.writes.push_back(value);
    written_[Graph::index(storage)] = true;
  }

  // Uninitialised memory that no operation wrote was written by the host or a custom kernel.
  void check_written(const Node& node, ValueId value) {
    if (!is_written(value)) obstacle(node.name() + " reads memory that no operation has written");
  }

  bool is_written(ValueId value) const {
    return written_[Graph::index(recording_.graph.storage_of(value))] ||
           recording_.graph.geometry(value).elements() == 0;
  }

  void keep(StorageId storage, const at::Tensor& tensor) {
    if (!kept_.insert(storage).second) return;
    const BelowAutograd below;
    const auto size = static_cast<std::int64_t>(tensor.storage().nbytes());
    KeptMemory kept{
        .memory = tensor_of(tensor.storage(), keys_of(tensor.device()), at::kByte, {size}, {1}, 0)};
    kept.before = kept.memory.clone();
    recording_.changed.push_back(std::move(kept));
  }

  void note_results(const c10::OperatorHandle& operation, const torch::jit::Stack& stack,
                    Node& node, const std::vector<at::Tensor>& read) {
    const std::size_t count = operation.schema().returns().size();
    const bool fills = leaves_uninitialised(operation);
    for (std::size_t place = 0; place < count; ++place) {
      const c10::IValue& given = stack[stack.size() - count + place];
      if (given.isTensor()) {
        note_result(node, {.place = place}, given.toTensor(), fills);
      } else if (given.isTensorList()) {
        const auto tensors = given.toTensorVector();
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          note_result(node, {.place = place, .element = i}, tensors[i], fills);
        }
      }
    }
    check_geometries(node, read);
  }

  void note_result(Node& node, Result result, const at::Tensor& tensor, bool uninitialised) {
    const std::size_t storages = recording_.graph.storages.size();
    result.value = value_of(tensor, Storage::Kind::kComputed);
    const bool is_new = recording_.graph.storages.size() > storages;
    if (is_new) written_.back() = !uninitialised;
    node.results.push_back(result);
  }

  // The tensors are those that were given: one that is resized, or given other memory, differs.
  void check_geometries(const Node& node, const std::vector<at::Tensor>& read) {
    std::size_t tensor = 0;
    for (const ValueId value : values_read(node)) {
      const at::Tensor& now = read[tensor++];
      const auto known = known_.find(now.storage().unsafeGetStorageImpl());
      const bool same = known != known_.end() &&
                        known->second == recording_.graph.storage_of(value) &&
                        geometry_of(now) == recording_.graph.geometry(value);
      if (!same && !node.writes.empty()) obstacle(node.name() + " resizes a tensor");
    }
  }

  static std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
    const BelowAutograd below;
    std::vector<at::Tensor> copied;
    for (const at::Tensor& tensor : tensors) copied.push_back(tensor.clone());
    return copied;
  }

  void check_unchanged(const Node& node, const std::vector<at::Tensor>& now,
                       const std::vector<at::Tensor>& before) {
    const BelowAutograd below;
    const auto values = values_read(node);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const StorageId storage = recording_.graph.storage_of(values[i]);
      const bool may_change = std::ranges::any_of(node.writes, [&](ValueId written) {
        return recording_.graph.storage_of(written) == storage;
      });
      if (may_change || same_values(now[i], before[i])) continue;
      throw Internal("{} changes its argument {}, which its schema does not name", node.name(), i);
    }
  }

  // NaN is equal to itself here.
  static bool same_values(const at::Tensor& one, const at::Tensor& other) {
    return at::equal(one.nan_to_num(), other.nan_to_num()) &&
           at::equal(one.ne(one), other.ne(other));
  }

  RecordOptions options_;
  Recording recording_{};
  std::mutex mutex_{};
  std::unordered_map<c10::StorageImpl*, StorageId> known_{};
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> seen_{};
  /// By storage, whether there is anything in it yet.
  std::vector<bool> written_{};
  /// External ones that were copied before their first change.
  std::set<StorageId> kept_{};
};

std::atomic<Recorder*> current_recorder{nullptr};

void record_operation(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(kRecorderKey);
  Recorder* const recorder = current_recorder.load();
  if (recorder == nullptr) return operation.callBoxed(stack);
  recorder->run(operation, stack);
}

void register_once() {
  static const c10::RegistrationHandleRAII registration =
      c10::Dispatcher::singleton().registerFallback(
          kRecorderKey, c10::KernelFunction::makeFromBoxedFunction<&record_operation>(),
          "muster's recorder");
}

/// This thread's operations, and those of backwards that it begins, reach the recorder.
class RecordingScope {
 public:
  explicit RecordingScope(Recorder* recorder) { current_recorder.store(recorder); }
  ~RecordingScope() { current_recorder.store(nullptr); }

 private:
  c10::impl::IncludeDispatchKeyGuard reaches_{kRecorderKey};
};

std::mutex& recorder_turn() {
  static std::mutex turn;
  return turn;
}

}  // namespace

void KeptMemory::restore() const {
  const BelowAutograd below;
  memory.copy_(before);
}

void note_obstacle(std::string why) {
  Recorder* const recorder = current_recorder.load();
  const bool is_recorded = c10::impl::tls_is_dispatch_key_included(kRecorderKey);
  if (recorder != nullptr && is_recorded) recorder->note(std::move(why));
}

Recording record(const Step& step, const std::vector<at::Tensor>& inputs,
                 const RecordOptions& options) {
  const std::lock_guard turn(recorder_turn());
  register_once();
  Recorder recorder(inputs, options);
  std::vector<at::Tensor> outputs;
  {
    const RecordingScope scope(&recorder);
    outputs = step(inputs);
  }
  return recorder.take(std::move(outputs));
}

}  // namespace muster::compiler
