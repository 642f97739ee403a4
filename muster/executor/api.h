#pragma once

/// Runs exported models: a SavedModel's signatures into answers.

#include "muster/executor/executable_model.h"
