import { readKernelFile } from '../../host/process/proc.js'

/** The host's processor. Guests with kvm see it unchanged. */
export interface HostProcessor {
  readonly vendor: string
  /** Family, model and stepping. */
  readonly model: string
  /** The processor's features, in alphabetical order. */
  readonly flags: readonly string[]
}

export function readHostProcessor(): HostProcessor {
  return parseProcessor(readKernelFile('/proc/cpuinfo') ?? '')
}

/** Parses the first processor of /proc/cpuinfo (proc_cpuinfo(5)). */
export function parseProcessor(text: string): HostProcessor {
  const [first = ''] = text.split('\n\n')
  const valueOf = (name: string): string => new RegExp(`^${name}\\s*:\\s*(.*)$`, 'm').exec(first)?.[1]?.trim() ?? ''
  return {
    vendor: valueOf('vendor_id'),
    model: ['cpu family', 'model', 'stepping'].map(valueOf).join('-'),
    flags: valueOf('flags').split(/\s+/).filter(Boolean).sort(),
  }
}
