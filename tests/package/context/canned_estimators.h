extern muster::InputFn training_input, evaluation_input;
