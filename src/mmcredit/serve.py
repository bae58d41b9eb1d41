"""``python -m mmcredit.serve model.path=...``: vLLM for a trainer in another process. See ``docs/vllm.md``."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from mmcredit.launch import launch


def run(cfg: DictConfig) -> Any:
    """Serve until stopped."""
    from hydra.utils import instantiate

    from mmcredit.rollout.vllm_server import serve

    server = serve(instantiate(cfg.core), cfg.host, cfg.port)
    print(f"serving {cfg.model.path} at http://{cfg.host}:{server.server_port}; stop with Ctrl-C", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    launch(run, "serve")
