// `muster models` and `muster versions`: Cloud ML Engine's commands of these names, on a folder
// that `muster serve --models-dir` serves, or on such a server.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/command.h"
#include "muster/cli/remote_models.h"
#include "muster/cli/words.h"
#include "muster/serving/codec/model_folder.h"

namespace muster::cli {
namespace {

using serving::ModelCatalog;
using serving::ModelRecord;
using serving::VersionRecord;

struct ModelsFlags {
  std::string models_dir = "models";
  std::string server{};
  std::string name{};
  std::string model{};
  std::string origin{};
  std::string description{};
  std::string traffic_split{};
  std::string stage{};
  std::string reason{};
  std::string other{};
  bool clear_traffic_split = false;
  bool quiet = false;
  bool as_json = false;
  std::vector<std::string> ignored{};
};

using Flags = std::shared_ptr<ModelsFlags>;

// Flags of gcloud that choose a machine in a cloud.
constexpr const char* kOfTheCloud[] = {
    "--runtime-version", "--python-version", "--framework", "--staging-bucket", "--machine-type",
    "--regions",         "--region",         "--labels",    "--config",
};

Flags add_common(CLI::App& command) {
  const auto flags = std::make_shared<ModelsFlags>();
  command
      .add_option("--models-dir,--models_dir", flags->models_dir,
                  "The folder of the models (MUSTER_MODELS_DIR)")
      ->envname("MUSTER_MODELS_DIR")
      ->capture_default_str();
  command.add_option("--server", flags->server,
                     "HOST:PORT of a server to ask instead of the folder");
  for (const char* name : kOfTheCloud) {
    command
        .add_option_function<std::string>(
            name, [flags, name](const std::string&) { flags->ignored.emplace_back(name); }, "")
        ->group("");
  }
  return flags;
}

void add_name(CLI::App& command, const Flags& flags, const char* what) {
  command.add_option("name", flags->name, what)->required();
}
void add_model_flag(CLI::App& command, const Flags& flags) {
  command.add_option("--model", flags->model, "The model")->required();
}
void add_quiet(CLI::App& command, const Flags& flags) {
  command.add_flag("--quiet,-q", flags->quiet, "Do not ask");
}

template <typename Act>
void set_action(CLI::App& command, const Flags& flags, Act act) {
  command.callback([flags, act] {
    for (const std::string& name : flags->ignored) {
      log::info("{} is ignored: models are served where you are", name);
    }
    if (flags->server.empty()) {
      serving::ModelFolder models(flags->models_dir);
      act(*flags, models);
    } else {
      act(*flags, *remote_models(flags->server));
    }
  });
}

void print_columns(std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    fmt::print("{}\n", line);
  }
}

void add_json(CLI::App& command, const Flags& flags, const char* what) {
  add_json_flag(command, flags->as_json, what);
}

using nlohmann::ordered_json;

void set_text(ordered_json& written, const char* name, const std::string& value) {
  if (!value.empty()) written[name] = value;
}

// As Cloud ML Engine's API has them.
ordered_json json_of(const std::string& model, const VersionRecord& version) {
  ordered_json written{{"name", fmt::format("models/{}/versions/{}", model, version.name)}};
  set_text(written, "createTime", version.create_time);
  set_text(written, "deploymentUri", version.deployment_uri);
  set_text(written, "description", version.description);
  if (version.is_default) written["isDefault"] = true;
  written["state"] = version.state;
  if (version.stage != serving::kNoStage) written["stage"] = version.stage;
  for (const serving::StageChange& change : version.stage_changes) {
    written["stageChanges"].push_back(
        {{"stage", change.stage}, {"time", change.time}, {"reason", change.reason}});
  }
  if (!version.lineage.empty()) written["lineage"] = ordered_json::parse(version.lineage);
  return written;
}

ordered_json json_of(const ModelRecord& model) {
  ordered_json written{{"name", "models/" + model.name}};
  set_text(written, "createTime", model.create_time);
  if (!model.default_version.empty()) {
    written["defaultVersion"] = {
        {"name", fmt::format("models/{}/versions/{}", model.name, model.default_version)}};
  }
  set_text(written, "description", model.description);
  if (!model.traffic_split.empty()) written["trafficSplit"] = model.traffic_split;
  return written;
}

void print_json(const ordered_json& written) {
  fmt::print("{}\n", written.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

void print_field(const char* name, const std::string& value) {
  if (!value.empty()) fmt::print("{}: {}\n", name, value);
}

// Names and texts of what a version comes from, "metrics.accuracy" and "0.84".
std::vector<std::pair<std::string, std::string>> lineage_fields(const VersionRecord& version) {
  std::vector<std::pair<std::string, std::string>> fields;
  const auto lineage = ordered_json::parse(version.lineage, nullptr, /*allow_exceptions=*/false);
  if (!lineage.is_object()) return fields;
  const auto text_of = [](const ordered_json& value) {
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  };
  for (const auto& [name, value] : lineage.items()) {
    if (value.is_object()) {
      for (const auto& [key, inner] : value.items()) {
        fields.emplace_back(fmt::format("{}.{}", name, key), text_of(inner));
      }
    } else if (name == "files" && value.is_array()) {
      for (const auto& file : value) {
        if (file.is_object())
          fields.emplace_back("file", text_of(file.value("path", ordered_json())));
      }
    } else {
      fields.emplace_back(name, text_of(value));
    }
  }
  return fields;
}

void print_version_record(const std::string& model, const VersionRecord& version) {
  print_field("createTime", version.create_time);
  print_field("deploymentUri", version.deployment_uri);
  print_field("description", version.description);
  if (version.is_default) fmt::print("isDefault: true\n");
  fmt::print("name: models/{}/versions/{}\nstate: {}\n", model, version.name, version.state);
  if (!version.lineage.empty()) {
    fmt::print("lineage:\n");
    for (const auto& [name, value] : lineage_fields(version)) {
      fmt::print("  {}: {}\n", name, value);
    }
  }
  if (version.stage_changes.empty()) return;
  fmt::print("stage: {}\nstageChanges:\n", version.stage);
  for (const serving::StageChange& change : version.stage_changes) {
    fmt::print("- {} {}{}{}\n", change.time, change.stage, change.reason.empty() ? "" : ": ",
               change.reason);
  }
}

void print_version(const ModelsFlags& given, const VersionRecord& version) {
  if (given.as_json) return print_json(json_of(given.model, version));
  print_version_record(given.model, version);
}

// Asks only when standard input is a terminal.
void confirm(const ModelsFlags& flags, const std::string& question) {
  if (flags.quiet || ::isatty(STDIN_FILENO) == 0) return;
  fmt::print(stderr, "{}\n\nDo you want to continue (Y/n)?  ", question);
  std::string answer;
  std::getline(std::cin, answer);
  if (!answer.empty() && answer != "y" && answer != "Y") throw Cancelled("Aborted by user.");
}

void add_models_create(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "Letters, digits and _");
  command.add_option("--description", flags->description, "A description");
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    models.create_model(given.name, given.description);
    fmt::print(stderr, "Created ml engine model [models/{}].\n", given.name);
  });
}

void add_models_list(CLI::App& command) {
  const Flags flags = add_common(command);
  add_json(command, flags, "One JSON object per model, a line each");
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    std::vector<std::vector<std::string>> rows{{"NAME", "DEFAULT_VERSION_NAME"}};
    for (const ModelRecord& model : models.list()) {
      if (given.as_json) print_json(json_of(model));
      rows.push_back({model.name, model.default_version});
    }
    if (given.as_json) return;
    if (rows.size() == 1) {
      fmt::print(stderr, "Listed 0 items.\n");
    } else {
      print_columns(rows);
    }
  });
}

void add_models_describe(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "The model");
  add_json(command, flags, "One JSON object");
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    const ModelRecord model = models.model(given.name);
    if (given.as_json) return print_json(json_of(model));
    print_field("createTime", model.create_time);
    if (!model.default_version.empty()) {
      fmt::print("defaultVersion:\n  name: models/{}/versions/{}\n", model.name,
                 model.default_version);
    }
    print_field("description", model.description);
    fmt::print("name: models/{}\n", model.name);
    if (!model.traffic_split.empty()) fmt::print("trafficSplit:\n");
    for (const auto& [version, share] : model.traffic_split) {
      fmt::print("  {}: {}\n", version, share);
    }
  });
}

// "v1=90,v2=10"
serving::TrafficSplit split_of(const std::string& list) {
  serving::TrafficSplit split;
  for (const std::string& item : cli::split(list, ',')) {
    const auto equals = item.rfind('=');
    const char* const end = item.data() + item.size();
    double weight = 0;
    const bool has_both = equals != std::string::npos && equals > 0;
    const auto read = has_both ? std::from_chars(item.data() + equals + 1, end, weight)
                               : std::from_chars_result{end, std::errc::invalid_argument};
    if (read.ec != std::errc{} || read.ptr != end || !(weight >= 0)) {
      throw UsageError("--traffic-split must be VERSION=SHARE,VERSION=SHARE: {}", list);
    }
    if (!split.emplace(item.substr(0, equals), weight).second) {
      throw UsageError("--traffic-split names a version twice: {}", list);
    }
  }
  return split;
}

void add_models_update(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "The model");
  auto* const split = command.add_option(
      "--traffic-split", flags->traffic_split,
      "VERSION=SHARE,VERSION=SHARE: shares of the requests that name no version, such as "
      "v1=90,v2=10");
  command
      .add_flag("--clear-traffic-split", flags->clear_traffic_split,
                "The default version answers all of them")
      ->excludes(split);
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    if (given.traffic_split.empty() && !given.clear_traffic_split) {
      throw UsageError("--traffic-split or --clear-traffic-split must be given");
    }
    models.set_traffic_split(given.name, given.clear_traffic_split ? serving::TrafficSplit()
                                                                   : split_of(given.traffic_split));
    fmt::print(stderr, "Updated ml engine model [models/{}].\n", given.name);
  });
}

void add_models_delete(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "The model");
  add_quiet(command, flags);
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    confirm(given, fmt::format("This will delete model [{}]...", given.name));
    models.delete_model(given.name);
    fmt::print(stderr, "Deleting model [{}]......done.\n", given.name);
  });
}

void add_versions_create(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "Letters, digits and _, such as v1");
  add_model_flag(command, flags);
  command
      .add_option("--origin", flags->origin,
                  "A SavedModel, or a folder of numbered ones, of which the highest is copied")
      ->required();
  command.add_option("--description", flags->description, "A description");
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    models.create_version(given.model, given.name, given.origin, given.description);
    fmt::print(stderr, "Creating version (this might take a few minutes)......done.\n");
  });
}

void add_versions_list(CLI::App& command) {
  const Flags flags = add_common(command);
  add_model_flag(command, flags);
  add_json(command, flags, "One JSON object per version, a line each");
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    const auto versions = models.model(given.model).versions;
    // As gcloud has it, until a version has a stage.
    const bool has_stages = std::ranges::any_of(
        versions, [](const VersionRecord& one) { return one.stage != serving::kNoStage; });
    std::vector<std::vector<std::string>> rows{{"NAME", "DEPLOYMENT_URI", "STATE"}};
    if (has_stages) rows.front().push_back("STAGE");
    for (const VersionRecord& version : versions) {
      if (given.as_json) print_json(json_of(given.model, version));
      rows.push_back({version.name, version.deployment_uri, version.state});
      if (has_stages) rows.back().push_back(version.stage);
    }
    if (given.as_json) return;
    if (rows.size() == 1) {
      fmt::print(stderr, "Listed 0 items.\n");
    } else {
      print_columns(rows);
    }
  });
}

void add_versions_describe(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "The version");
  add_model_flag(command, flags);
  add_json(command, flags, "One JSON object");
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    print_version(given, models.version(given.model, given.name));
  });
}

void add_versions_set_default(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "The version");
  add_model_flag(command, flags);
  add_json(command, flags, "One JSON object");
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    print_version(given, models.set_default(given.model, given.name));
  });
}

void add_versions_promote(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "The version");
  add_model_flag(command, flags);
  command
      .add_option("--stage", flags->stage,
                  "staging, production, archived or none; production becomes the default version")
      ->required();
  command.add_option("--reason", flags->reason, "The reason, which is kept with the version")
      ->required();
  add_json(command, flags, "One JSON object");
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    print_version(given, models.set_stage(given.model, given.name, given.stage, given.reason));
  });
}

void add_versions_compare(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "A version");
  command.add_option("other", flags->other, "Another version")->required();
  add_model_flag(command, flags);
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    using Fields = std::map<std::string, std::string>;
    const auto fields_of = [&](const std::string& name) {
      const VersionRecord version = models.version(given.model, name);
      Fields fields{{"stage", version.stage}, {"createTime", version.create_time}};
      for (const auto& [key, value] : lineage_fields(version)) {
        auto& text = fields[key];
        text += text.empty() ? value : " " + value;
      }
      return fields;
    };
    Fields first = fields_of(given.name);
    Fields second = fields_of(given.other);
    std::set<std::string> names;
    for (const Fields* fields : {&first, &second}) {
      for (const auto& [name, ignored] : *fields) names.insert(name);
    }
    std::vector<std::vector<std::string>> rows{{"", given.name, given.other}};
    for (const std::string& name : names) {
      if (first[name] != second[name]) rows.push_back({name, first[name], second[name]});
    }
    print_columns(rows);
  });
}

void add_versions_update(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "The version");
  add_model_flag(command, flags);
  command.add_option("--description", flags->description, "A description")->required();
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    models.set_description(given.model, given.name, given.description);
    fmt::print(stderr, "Updating version [{}]......done.\n", given.name);
  });
}

void add_versions_delete(CLI::App& command) {
  const Flags flags = add_common(command);
  add_name(command, flags, "The version");
  add_model_flag(command, flags);
  add_quiet(command, flags);
  set_action(command, flags, [](const ModelsFlags& given, ModelCatalog& models) {
    confirm(given, fmt::format("This will delete version [{}]...", given.name));
    models.delete_version(given.model, given.name);
    fmt::print(stderr, "Deleting version [{}]......done.\n", given.name);
  });
}

constexpr Command kModelsCommands[] = {
    {"create", "create a model, without versions", add_models_create},
    {"list", "list models and their default versions", add_models_list},
    {"describe", "show a model", add_models_describe},
    {"update", "share requests among the versions of a model", add_models_update},
    {"delete", "remove a model that has no versions", add_models_delete},
};

constexpr Command kVersionsCommands[] = {
    {"create", "create a version from an export", add_versions_create},
    {"list", "list the versions of a model", add_versions_list},
    {"describe", "show a version", add_versions_describe},
    {"set-default", "set the version for requests that name none", add_versions_set_default},
    {"promote", "move a version to a stage, with a reason", add_versions_promote},
    {"compare", "show how two versions and their runs differ", add_versions_compare},
    {"update", "change the description of a version", add_versions_update},
    {"delete", "remove a version", add_versions_delete},
};

}  // namespace

void add_models(CLI::App& command) { add_commands(command, kModelsCommands); }
void add_versions(CLI::App& command) { add_commands(command, kVersionsCommands); }

}  // namespace muster::cli
