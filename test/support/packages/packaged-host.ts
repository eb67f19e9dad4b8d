import type { MachineApi } from '../host/machine-api.js'
import type { SystemdMachine } from '../host/systemd-machine.js'
import { waitFor } from '../wait.js'

export interface HostRow {
  readonly id: string
  readonly status: string
  readonly version: string
  readonly previous_version: string
  readonly install: { readonly step: string; readonly message: string } | null
  readonly upgrade: { readonly state: string; readonly step: string; readonly message: string } | null
}

/** A host whose agent was installed from packages. */
export class PackagedHost {
  constructor(
    private readonly api: () => MachineApi,
    readonly machine: SystemdMachine,
    readonly id: string,
    /** Join token with which the host was added. Empty for the gateway's own machine. */
    readonly token = '',
  ) {}

  /** Adds a machine as a host, with the command that the gateway returns. */
  static add(api: () => MachineApi, machine: SystemdMachine, name: string): PackagedHost {
    const body = { name }
    const added = api().ask<{ host: HostRow; command: string }>('/hosts', { method: 'POST', body })
    machine.run('sh', '-c', added.command)
    return new PackagedHost(api, machine, added.host.id, /berth_jt_\S+/.exec(added.command)![0])
  }

  get row(): HostRow {
    return this.api().ask<HostRow>(`/hosts/${this.id}`)
  }

  /** Requests an upgrade and waits for its end. */
  upgrade(body: object = {}): Promise<HostRow> {
    this.api().ask(`/hosts/${this.id}/upgrade`, { method: 'POST', body })
    return this.waitForUpgrade()
  }

  /** Resolves when the requested upgrade has ended. */
  waitForUpgrade(): Promise<HostRow> {
    const ended = (): HostRow | undefined => {
      const row = this.api().tryAsk<HostRow>(`/hosts/${this.id}`)
      return row?.upgrade && row.upgrade.state !== 'running' ? row : undefined
    }
    const what = (): string => `the end of the upgrade: ${this.journal()}`
    return waitFor(ended, { timeoutMs: 900_000, intervalMs: 500, what })
  }

  async waitUntilOnline(version?: string): Promise<void> {
    const isOnline = (): boolean => {
      const row = this.api().tryAsk<HostRow>(`/hosts/${this.id}`)
      return row?.status === 'online' && (version === undefined || row.version === version)
    }
    await waitFor(isOnline, { timeoutMs: 600_000, intervalMs: 200, what: () => `the host online: ${this.journal()}` })
  }

  /** Creates a guest on this host. The request is repeated while the agent restarts. */
  async createGuest(name: string): Promise<void> {
    const size = { vcpu: 1, ram_mb: 128, disk_gb: 1 }
    const body = { name, host_id: this.id, virtualization: 'lxc', template_id: 'debian-12', ...size }
    const submit = (): string | undefined =>
      this.api().tryAsk<{ task_id: string }>('/containers', { method: 'POST', body })?.task_id
    const task = await waitFor(submit, { what: `the creation of ${name}`, intervalMs: 500 })
    await this.api().follow(task, 600_000)
  }

  /** Pids of the guests' monitors and first processes. */
  guestProcesses(): string[] {
    const script = 'for monitor in $(pgrep -f "^\\[lxc monitor\\]"); do echo "$monitor $(pgrep -P "$monitor")"; done'
    return this.machine.run('sh', '-c', script).trim().split('\n').filter(Boolean)
  }

  journal(): string {
    return this.machine.try('journalctl', '-u', 'berth-upgrade', '-n', '40', '--no-pager', '-o', 'cat').output
  }
}
