#include "muster/orchestration/jobs/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/host_memory.h"
#include "muster/base/suggestion.h"
#include "muster/base/thread_pool.h"
#include "muster/orchestration/jobs/yaml_internal.h"

namespace muster::jobs {
namespace {

constexpr std::string_view kCustom = "CUSTOM";
constexpr std::int64_t kMostCount = 1000;
constexpr double kMostCpus = 1e6;

template <typename Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& entry : map) keys.push_back(entry.first);
  return keys;
}

// -------------------------------------------------------------------------- a site's own table

Resources resources_from(const YamlValue& value, const std::string& name) {
  Resources resources;
  for (const auto& [key, field] : value.map(name)) {
    const std::string full = name + "." + key;
    if (key == "cpus") {
      resources.cpus = field.number(full);
    } else if (key == "memoryGb") {
      resources.memory_gb = field.number(full);
    } else if (key == "gpus") {
      resources.gpus = field.integer(full);
    } else {
      throw InvalidArgument("{}: there is no field {}{}", field.place, full,
                            did_you_mean(key, {"cpus", "memoryGb", "gpus"}));
    }
  }
  const bool is_good = resources.cpus >= 0 && resources.cpus <= kMostCpus &&
                       resources.memory_gb >= 0 && resources.gpus >= 0 &&
                       resources.gpus <= kMostCount;
  if (!is_good) throw InvalidArgument("{}: {} has a size that no machine has", value.place, name);
  return resources;
}

ScaleTier tier_from(const YamlValue& value, const std::string& name) {
  ScaleTier tier;
  for (const auto& [key, field] : value.map(name)) {
    const std::string full = name + "." + key;
    if (key == "masterType") {
      tier.master_type = field.string(full);
    } else if (key == "workerType") {
      tier.worker_type = field.string(full);
    } else if (key == "parameterServerType") {
      tier.parameter_server_type = field.string(full);
    } else if (key == "workerCount") {
      tier.workers = field.integer(full);
    } else if (key == "parameterServerCount") {
      tier.ps = field.integer(full);
    } else {
      throw InvalidArgument("{}: there is no field {}{}", field.place, full,
                            did_you_mean(key, {"masterType", "workerType", "parameterServerType",
                                               "workerCount", "parameterServerCount"}));
    }
  }
  const auto is_count = [](std::int64_t count) { return count >= 0 && count <= kMostCount; };
  if (tier.master_type.empty() || !is_count(tier.workers) || !is_count(tier.ps) ||
      (tier.workers > 0 && tier.worker_type.empty()) ||
      (tier.ps > 0 && tier.parameter_server_type.empty())) {
    throw InvalidArgument(
        "{}: {} needs a masterType, and a type for each count, which is from 0 to {}", value.place,
        name, kMostCount);
  }
  return tier;
}

// ---------------------------------------------------------------------- names that tell a size

struct Family {
  std::string_view prefix;
  double gb_per_cpu;
};

constexpr Family kFamilies[] = {
    {"n1-standard-", 3.75}, {"n1-highmem-", 6.5}, {"n1-highcpu-", 0.9}, {"n2-standard-", 4},
    {"n2-highmem-", 8},     {"n2-highcpu-", 1},   {"e2-standard-", 4},  {"e2-highmem-", 8},
    {"e2-highcpu-", 1},     {"c2-standard-", 4},
};

std::optional<Resources> compute_engine_type(std::string_view name) {
  for (const Family& family : kFamilies) {
    if (!name.starts_with(family.prefix)) continue;
    const std::string digits(name.substr(family.prefix.size()));
    if (digits.empty() || digits.size() > 3 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      return std::nullopt;
    }
    const double cpus = std::stoi(digits);
    return Resources{.cpus = cpus, .memory_gb = cpus * family.gb_per_cpu};
  }
  return std::nullopt;
}

// ------------------------------------------------------------------------------- of this host

std::int64_t count_gpus() {
  std::error_code error;
  std::int64_t count = 0;
  const std::filesystem::directory_iterator folder("/proc/driver/nvidia/gpus", error);
  if (error) return 0;
  for ([[maybe_unused]] const auto& entry : folder) ++count;
  return count;
}

// ------------------------------------------------------------------------------------ resolve

class Resolver {
 public:
  Resolver(Submission& submission, const MachineTable& table)
      : submission_(submission),
        input_(submission.job.training_input),
        run_(submission.job.local),
        table_(table) {}

  void resolve() {
    if (input_.scale_tier.empty()) input_.scale_tier = "BASIC";
    if (input_.scale_tier == kCustom) {
      take_counts();
    } else {
      take_tier();
    }
    add_up();
    cap();
  }

 private:
  // " (config.yaml:3)", where the field came from.
  std::string origin(const std::string& field) const {
    const auto found = submission_.origins.find(field);
    return found == submission_.origins.end() ? "" : fmt::format(" ({})", found->second);
  }

  void take_tier() {
    const auto found = table_.tiers.find(input_.scale_tier);
    if (found == table_.tiers.end()) {
      auto known = keys_of(table_.tiers);
      known.emplace_back(kCustom);
      throw InvalidArgument("there is no scale tier \"{}\"{}; there are {}{}", input_.scale_tier,
                            origin("scaleTier"), fmt::join(known, ", "),
                            did_you_mean(input_.scale_tier, known));
    }
    const ScaleTier& tier = found->second;
    if (!tier.refusal.empty()) {
      throw InvalidArgument("scale tier {}{}: {}", input_.scale_tier, origin("scaleTier"),
                            tier.refusal);
    }
    refuse_counts();
    master_ = type_of("masterType", tier.master_type);
    run_.workers = tier.workers;
    if (tier.workers > 0) worker_ = type_of("workerType", tier.worker_type);
    run_.ps = tier.ps;
    if (tier.ps > 0) ps_ = type_of("parameterServerType", tier.parameter_server_type);
  }

  void refuse_counts() const {
    const std::pair<const char*, const RoleInput*> roles[] = {
        {"master", &input_.master},
        {"worker", &input_.worker},
        {"parameterServer", &input_.parameter_server},
        {"evaluator", &input_.evaluator}};
    for (const auto& [role, given] : roles) {
      const bool has_type = !given->machine_type.empty();
      if (!has_type && !given->count) continue;
      const std::string field = std::string(role) + (has_type ? "Type" : "Count");
      throw InvalidArgument(
          "{}{} goes with the scale tier CUSTOM alone, and this job's is {}{}; set CUSTOM or leave "
          "it out",
          field, origin(field), input_.scale_tier, origin("scaleTier"));
    }
  }

  void take_counts() {
    if (input_.master.machine_type.empty()) {
      throw InvalidArgument(
          "the scale tier CUSTOM{} needs a machine type for the master: masterType in the file, or "
          "--master-machine-type",
          origin("scaleTier"));
    }
    master_ = type_of("masterType", input_.master.machine_type);
    run_.workers = count_of("worker", input_.worker, worker_);
    run_.ps = count_of("parameterServer", input_.parameter_server, ps_);
    run_.evaluators = count_of("evaluator", input_.evaluator, evaluator_);
  }

  std::int64_t count_of(const std::string& role, const RoleInput& given, Resources& resources) {
    const std::int64_t count = given.count.value_or(0);
    if (count < 0 || count > kMostCount) {
      throw InvalidArgument("{}Count{} must be from 0 to {}: {}", role, origin(role + "Count"),
                            kMostCount, count);
    }
    if (count > 0 && given.machine_type.empty()) {
      throw InvalidArgument("{0}Count{1} needs a machine type: {0}Type", role,
                            origin(role + "Count"));
    }
    if (!given.machine_type.empty()) resources = type_of(role + "Type", given.machine_type);
    return count;
  }

  Resources type_of(const std::string& field, const std::string& name) const {
    if (const auto type = table_.type(name)) return *type;
    const auto known = keys_of(table_.types);
    throw InvalidArgument("{}{}: there is no machine type \"{}\"{}; a site adds its own in {}",
                          field, origin(field), name, did_you_mean(name, known), "machines.yaml");
  }

  static std::int64_t gpus_of(const Resources& type, const Accelerator& accelerator) {
    return accelerator.count > 0 ? accelerator.count : type.gpus;
  }

  void add_up() {
    run_.is_single = run_.workers == 0 && run_.ps == 0 && run_.evaluators == 0;
    run_.chief = input_.use_chief || run_.evaluators > 0 ? "chief" : "master";
    run_.master_gpus = gpus_of(master_, input_.master.accelerator);
    run_.worker_gpus = gpus_of(worker_, input_.worker.accelerator);
    run_.evaluator_gpus = gpus_of(evaluator_, input_.evaluator.accelerator);
    submission_.roles = roles();
    const auto workers = static_cast<double>(run_.workers);
    const auto ps = static_cast<double>(run_.ps);
    const auto evaluators = static_cast<double>(run_.evaluators);
    run_.needs.cpus =
        master_.cpus + workers * worker_.cpus + ps * ps_.cpus + evaluators * evaluator_.cpus;
    run_.needs.memory_gb = master_.memory_gb + workers * worker_.memory_gb + ps * ps_.memory_gb +
                           evaluators * evaluator_.memory_gb;
    run_.needs.gpus =
        run_.master_gpus + run_.workers * run_.worker_gpus + run_.evaluators * run_.evaluator_gpus;
  }

  std::vector<RoleTasks> roles() const {
    const auto with_gpus = [](Resources type, std::int64_t gpus) {
      type.gpus = gpus;
      return type;
    };
    std::vector<RoleTasks> roles{
        {run_.chief, 1, with_gpus(master_, run_.master_gpus)},
        {"worker", run_.workers, with_gpus(worker_, run_.worker_gpus)},
        {"ps", run_.ps, ps_},
        {"evaluator", run_.evaluators, with_gpus(evaluator_, run_.evaluator_gpus)}};
    std::erase_if(roles, [](const RoleTasks& role) { return role.count == 0; });
    return roles;
  }

  void cap() {
    Resources& needs = run_.needs;
    const Resources& host = table_.host;
    const auto tasks = 1 + run_.workers + run_.ps + run_.evaluators;
    if (static_cast<double>(tasks) > host.cpus) {
      warn("{} asks for {} tasks, which share the {:g} processors of this host", input_.scale_tier,
           tasks, host.cpus);
    }
    if (needs.gpus > host.gpus) {
      warn("{} asks for {} GPUs, and this host has {}", input_.scale_tier, needs.gpus, host.gpus);
    }
    needs.cpus = std::min(needs.cpus, host.cpus);
    needs.memory_gb = std::min(needs.memory_gb, host.memory_gb);
    needs.gpus = std::min(needs.gpus, host.gpus);
  }

  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    submission_.warnings.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  Submission& submission_;
  TrainingInput& input_;
  LocalRun& run_;
  const MachineTable& table_;
  Resources master_, worker_, ps_, evaluator_;
};

}  // namespace

MachineTable MachineTable::standard() {
  MachineTable table;
  table.types = {
      {"standard", {4, 15, 0}},
      {"large_model", {8, 52, 0}},
      {"complex_model_s", {8, 7.2, 0}},
      {"complex_model_m", {16, 14.4, 0}},
      {"complex_model_l", {32, 28.8, 0}},
      {"standard_gpu", {8, 30, 1}},
      {"complex_model_m_gpu", {16, 60, 4}},
      {"complex_model_l_gpu", {32, 120, 8}},
      {"standard_p100", {8, 30, 1}},
      {"complex_model_m_p100", {16, 60, 4}},
      {"standard_v100", {8, 30, 1}},
      {"large_model_v100", {16, 52, 1}},
      {"complex_model_m_v100", {16, 60, 4}},
      {"complex_model_l_v100", {32, 120, 8}},
  };
  table.tiers = {
      {"BASIC", {.master_type = "standard"}},
      {"STANDARD_1",
       {.master_type = "complex_model_s",
        .worker_type = "complex_model_s",
        .workers = 4,
        .parameter_server_type = "standard",
        .ps = 3}},
      {"PREMIUM_1",
       {.master_type = "complex_model_m",
        .worker_type = "complex_model_m",
        .workers = 19,
        .parameter_server_type = "large_model",
        .ps = 11}},
      {"BASIC_GPU", {.master_type = "standard_gpu"}},
      {"BASIC_TPU", {.refusal = "this host has no TPU; take BASIC, BASIC_GPU or CUSTOM"}},
  };
  table.host = this_host();
  return table;
}

void MachineTable::lay_over(const Path& file) {
  const YamlValue site = read_yaml(file);
  for (const auto& [key, value] : site.map("the file")) {
    if (key == "machineTypes") {
      for (const auto& [name, type] : value.map(key)) {
        types[name] = resources_from(type, key + "." + name);
      }
    } else if (key == "scaleTiers") {
      for (const auto& [name, tier] : value.map(key)) {
        tiers[normalized_tier(name)] = tier_from(tier, key + "." + name);
      }
    } else if (key == "host") {
      host = resources_from(value, key);
    } else {
      throw InvalidArgument("{}: there is no field {}{}", value.place, key,
                            did_you_mean(key, {"machineTypes", "scaleTiers", "host"}));
    }
  }
}

std::optional<Resources> MachineTable::type(const std::string& name) const {
  const auto found = types.find(name);
  return found != types.end() ? std::optional(found->second) : compute_engine_type(name);
}

Resources this_host() {
  return {.cpus = static_cast<double>(ThreadPool::available_processors()),
          .memory_gb = static_cast<double>(memory_of_process()) / 1e9,
          .gpus = count_gpus()};
}

MachineTable site_machines(const Path& file) {
  MachineTable table = MachineTable::standard();
  if (!file.empty()) {
    table.lay_over(file);
    return table;
  }
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  const Path own = config != nullptr && *config != '\0' ? Path(config)
                   : home != nullptr                    ? Path(home) / ".config"
                                                        : Path();
  for (const Path& folder : {own.empty() ? own : own / "muster", Path("/etc/muster")}) {
    const Path found = folder / "machines.yaml";
    if (folder.empty() || !file_exists(found)) continue;
    table.lay_over(found);
    break;
  }
  return table;
}

void resolve_machines(Submission& submission, const MachineTable& table) {
  Resolver(submission, table).resolve();
}

std::vector<std::string> deal_gpus(const LocalRun& run) {
  std::vector<std::int64_t> asked{run.master_gpus};
  asked.insert(asked.end(), static_cast<std::size_t>(run.workers), run.worker_gpus);
  asked.insert(asked.end(), static_cast<std::size_t>(run.evaluators), run.evaluator_gpus);
  std::int64_t total = 0;
  for (const std::int64_t count : asked) total += count;
  if (run.gpus.empty()) return {};
  std::vector<std::string> dealt;
  std::size_t next = 0;
  const bool is_enough = total <= static_cast<std::int64_t>(run.gpus.size());
  for (const std::int64_t count : asked) {
    std::string list;
    for (std::int64_t i = 0; i < (is_enough ? count : std::min<std::int64_t>(count, 1)); ++i) {
      list += (list.empty() ? "" : ",") + run.gpus[next++ % run.gpus.size()];
    }
    dealt.push_back(list);
  }
  return dealt;
}

}  // namespace muster::jobs
