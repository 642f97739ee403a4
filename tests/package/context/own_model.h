extern muster::Estimator estimator;
