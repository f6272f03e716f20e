"""The profile `restricted` of Kubernetes' Pod Security Standards, as a table of rules.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/ (restricted, with all
of baseline). The rules for AppArmor, SELinux, sysctls, Windows and ephemeral containers are left
out, because no pod here has any.
"""

from collections.abc import Callable
from typing import Any

Part = dict[str, Any]
VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir"),
    *("ephemeral", "persistentVolumeClaim", "projected", "secret"),
}
SECCOMP = ("RuntimeDefault", "Localhost")

OF_PODS: dict[str, Callable[[Part], bool]] = {
    "Host Namespaces": lambda pod: not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")),
    "Volume Types": lambda pod: all(set(one) - {"name"} <= VOLUMES for one in pod.get("volumes", [])),
}
OF_CONTAINERS: dict[str, Callable[[Part, Part], bool]] = {
    "Privileged Containers": lambda own, pod: not own.get("privileged"),
    "Privilege Escalation": lambda own, pod: own.get("allowPrivilegeEscalation") is False,
    "Running as Non-root": lambda own, pod: own.get("runAsNonRoot", pod.get("runAsNonRoot")) is True,
    "Running as Non-root user": lambda own, pod: own.get("runAsUser", pod.get("runAsUser")) != 0,
    "Seccomp": lambda own, pod: own.get("seccompProfile", pod.get("seccompProfile", {})).get("type") in SECCOMP,
    "Capabilities, dropped": lambda own, pod: "ALL" in own.get("capabilities", {}).get("drop", []),
    "Capabilities, added": lambda own, pod: set(own.get("capabilities", {}).get("add", [])) <= {"NET_BIND_SERVICE"},
    "/proc Mount Type": lambda own, pod: own.get("procMount", "Default") == "Default",
}
"""Rules of a container's security context and that of its pod."""


def broken_rules(pod: Part) -> list[str]:
    """The rules that the specification of a pod breaks."""
    broken = [name for name, holds in OF_PODS.items() if not holds(pod)]
    context = pod.get("securityContext", {})
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        own = container.get("securityContext", {})
        broken += [name for name, holds in OF_CONTAINERS.items() if not holds(own, context)]
        if any(port.get("hostPort") for port in container.get("ports", [])):
            broken.append("Host Ports")
    return broken
