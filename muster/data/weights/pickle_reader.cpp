#include "muster/data/weights/pickle_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/weights/pickle_machine_internal.h"

namespace muster {
namespace {

constexpr int kMostNested = 64;
constexpr std::uint64_t kNodeBytes = 64;
constexpr std::size_t kMostNamed = 10;
/// Where checkpoints have the weights beside other things, the likeliest first.
constexpr std::string_view kUsualKeys[] = {"state_dict", "model_state_dict", "model",  "module",
                                           "net",        "network",          "params", "weights"};

/// Collects the tensors of a value and of all that is below it.
class TensorCollector {
 public:
  explicit TensorCollector(PickleMachine& machine) : machine_(machine) {}

  /// Collects the tensors of the value under `key`; without a key, those of the dictionary that a
  /// checkpoint has under a usual name, or all.
  PickledTensors collect(PickleValue root, std::string_view key) {
    const PickleValue chosen = key.empty() ? usual_dictionary(root) : under(root, key);
    visit(chosen, "", 0);
    if (chosen.kind == PickleKind::kTensor) found_.tensors.front().name = "tensor";
    return std::move(found_);
  }

 private:
  /// The value of a dictionary's key; nothing where there is none.
  const PickleValue* find(PickleValue dict, std::string_view key) const {
    if (dict.kind != PickleKind::kDict) return nullptr;
    const auto& items = machine_.items(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (key_of(items[i]) == key) return &items[i + 1];
    }
    return nullptr;
  }

  PickleValue under(PickleValue value, std::string_view keys) const {
    while (!keys.empty()) {
      const std::string_view key = keys.substr(0, keys.find('/'));
      keys.remove_prefix(std::min(key.size() + 1, keys.size()));
      const PickleValue* found = find(value, key);
      if (found == nullptr) {
        std::vector<std::string> known;
        if (value.kind == PickleKind::kDict) {
          const auto& items = machine_.items(value);
          for (std::size_t i = 0; i + 1 < items.size() && known.size() < kMostNamed; i += 2) {
            known.push_back(key_of(items[i]));
          }
        }
        throw NotFound("{}: it has no key '{}'; there are: {}", machine_.file(), key,
                       fmt::join(known, ", "));
      }
      value = *found;
    }
    return value;
  }

  /// Goes down to "state_dict" and the like while no tensors are beside it.
  PickleValue usual_dictionary(PickleValue root) {
    for (int depth = 0; depth < kMostNested && root.kind == PickleKind::kDict; ++depth) {
      const auto& items = machine_.items(root);
      const PickleValue* next = nullptr;
      for (std::size_t i = 1; i < items.size(); i += 2) {
        if (items[i].kind == PickleKind::kTensor) return root;
      }
      for (const std::string_view key : kUsualKeys) {
        const PickleValue* found = find(root, key);
        if (next == nullptr && found != nullptr && found->kind == PickleKind::kDict) next = found;
      }
      if (next == nullptr) return root;
      for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        if (&items[i + 1] != next) note(key_of(items[i]));
      }
      root = *next;
    }
    return root;
  }

  /// Whether there is a tensor.
  bool visit(PickleValue value, const std::string& name, int depth) {
    if (depth > kMostNested) machine_.fail("values nested over 64 deep");
    // Values that are reached in many ways cost each time.
    machine_.charge(1);
    switch (value.kind) {
      case PickleKind::kTensor:
        add(value, name);
        return true;
      case PickleKind::kDict:
        return visit_dict(value, name, depth);
      case PickleKind::kTuple:
      case PickleKind::kList:
        return visit_list(value, name, depth);
      case PickleKind::kObject:
        return visit_object(value, name, depth);
      default:
        return false;
    }
  }

  bool visit_dict(PickleValue dict, const std::string& name, int depth) {
    bool has_tensors = false;
    const auto& items = machine_.items(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const auto key = key_of(items[i]);
      if (key.empty()) continue;
      const std::string path = path_of(name, key);
      if (visit(items[i + 1], path, depth + 1)) {
        has_tensors = true;
      } else {
        note(path);
      }
    }
    return has_tensors;
  }

  bool visit_list(PickleValue list, const std::string& name, int depth) {
    bool has_tensors = false;
    std::size_t number = 0;
    for (const PickleValue item : machine_.items(list)) {
      has_tensors |= visit(item, path_of(name, std::to_string(number++)), depth + 1);
    }
    return has_tensors;
  }

  /// An object's attributes: those of a module that libtorch saved are its variables.
  bool visit_object(PickleValue object, const std::string& name, int depth) {
    bool has_tensors = false;
    const auto& items = machine_.items(object);
    for (std::size_t i = 2; i < items.size(); ++i) has_tensors |= visit(items[i], name, depth + 1);
    return has_tensors;
  }

  std::string key_of(PickleValue key) const {
    if (key.kind == PickleKind::kText) return std::string(machine_.text(key));
    return key.kind == PickleKind::kInt ? std::to_string(key.number) : "";
  }

  std::string path_of(const std::string& name, const std::string& key) {
    machine_.charge(name.size() + key.size());
    return name.empty() ? key : name + "." + key;
  }

  void note(const std::string& path) {
    machine_.charge(kNodeBytes + path.size());
    found_.others.push_back(path);
  }

  void add(PickleValue value, const std::string& name) {
    const PickleMachine::Tensor& tensor = machine_.tensor(value);
    const PickleMachine::Storage& storage = machine_.storage(tensor.storage);
    machine_.charge(3 * sizeof(PickledTensor) + name.size() + storage.key.size() +
                    2 * tensor.shape.size() * sizeof(std::int64_t));
    found_.tensors.push_back(
        {.name = name,
         .type = tensor.type,
         .shape = tensor.shape,
         .strides = tensor.strides,
         .storage = std::string(storage.key),
         .storage_bytes = static_cast<std::uint64_t>(storage.bytes),
         .first_byte = static_cast<std::uint64_t>(tensor.offset) * element_bytes(tensor.type)});
  }

  PickleMachine& machine_;
  PickledTensors found_;
};

}  // namespace

PickledTensors read_pickled_tensors(std::string_view pickle, std::uint64_t offset,
                                    const std::string& file, std::uint64_t most_bytes,
                                    std::string_view key) {
  PickleMachine machine(pickle, offset, file, most_bytes);
  const PickleValue root = machine.read();
  return TensorCollector(machine).collect(root, key);
}

}  // namespace muster
