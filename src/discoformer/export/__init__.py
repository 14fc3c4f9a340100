"""Fitted densities and networks as files that run without this package: ONNX and torch programs."""

from discoformer.export.programs import check_export, export_network, export_read, run_exported

__all__ = ["check_export", "export_network", "export_read", "run_exported"]
