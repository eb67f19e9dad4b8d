import type { Guest } from '../api/types.ts'
import type { Mode } from './link.ts'

/** What a guest has consoles for, the usual one first. @param may whether a scope is held */
export function modesOf({ virtualization }: Pick<Guest, 'virtualization'>, may: (scope: string) => boolean): Mode[] {
  const all: Mode[] = virtualization === 'kvm' ? ['vnc', 'serial'] : ['shell', 'serial']
  return all.filter((mode) => may(mode === 'vnc' ? 'terminal:vnc' : 'terminal:ssh'))
}
