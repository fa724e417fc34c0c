"""Choose settings by Optuna for the lowest CRPS in cross-validation (needs `pip install optuna`)."""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score

from tggm import TGGMRegressor
from tggm.metrics import neg_crps_scorer


def objective(trial, X, y, **settings):
    """Return the mean CRPS of three folds for the settings of a trial."""
    model = TGGMRegressor(
        hidden=(trial.suggest_int("units", 10, 100, log=True),) * trial.suggest_int("layers", 1, 2),
        weight_decay=trial.suggest_float("weight_decay", 0.1, 30.0, log=True),
        random_state=0,
        **settings,
    )
    return -cross_val_score(model, X, y, scoring=neg_crps_scorer, cv=3).mean()


def main(trials=20):
    """Return the best settings for the diabetes data."""
    import optuna

    X, y = load_diabetes(return_X_y=True)
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(lambda trial: objective(trial, X, y, n_members=4), n_trials=trials)
    return study.best_params, study.best_value


if __name__ == "__main__":
    print(main())
