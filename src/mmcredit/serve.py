"""``python -m mmcredit.serve model.path=...``: vLLM for a trainer in another process. See ``docs/vllm.md``."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from mmcredit.launch import launch


def run(cfg: DictConfig) -> Any:
    """Serve until stopped.

    Raises:
        UserError: a number out of range, or no such model.
    """
    from hydra.utils import instantiate

    from mmcredit.checks import check_numbers
    from mmcredit.missing import missing_weights
    from mmcredit.rollout.vllm_server import serve
    from mmcredit.types import UserError

    check_numbers(cfg)
    if missing := missing_weights(cfg):
        raise UserError(f"this server cannot start here: {'; '.join(missing)}")
    server = serve(instantiate(cfg.core), cfg.host, cfg.port)
    print(f"serving {cfg.model.path} at http://{cfg.host}:{server.server_port}; stop with Ctrl-C", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    launch(run, "serve")
