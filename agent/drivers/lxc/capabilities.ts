import type { CgroupLayout } from '../../host/process/cgroup.js'
import type { DriverCapabilities } from '../contract.js'
import { canFreeze } from './freeze.js'

export function capabilitiesOf(cgroups: CgroupLayout): DriverCapabilities {
  return {
    consoles: ['text'],
    liveResize: ['vcpu', 'memory_up', 'memory_down', 'disk', 'io'],
    freeze: canFreeze(cgroups),
    setPassword: ['running', 'stopped'],
    snapshotRunning: true,
  }
}
