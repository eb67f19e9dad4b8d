import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { plainSpec } from '../host/agent-calls.js'
import { installBusyboxImage } from './busybox-image.js'
import { sh } from '../sh.js'
import { sshInto, type SshTarget } from './ssh-into.js'
import { installTinyImage } from './tiny-image.js'

/*
 * The kinds of guests, for tests that apply to all kinds. To run a program in the network of a guest, a test puts a
 * command prefix before the program: nsenter for a container, SSH for a virtual machine.
 */

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
const login = { sshAuthMode: 'password', sshPassword: 'a-Password-1' } as const

export interface GuestKind {
  readonly name: 'lxc' | 'kvm'
  /** Fields of a creation request, in addition to those of `plainSpec`. */
  readonly spec: Partial<GuestSpec>
  /** Replaces the image for guests of this kind with an image that boots within seconds. */
  installImage(pool: string): Promise<void>
}

export const lxc: GuestKind = { name: 'lxc', spec: {}, installImage: (pool) => installBusyboxImage(pool, 'debian-12') }

export const kvm: GuestKind = {
  name: 'kvm',
  spec: { virtualization: 'kvm', templateId: 'debian-12-kvm', ...login, limits: plainSpec.limits! },
  installImage: async (pool) => installTinyImage(pool, 'debian-12-kvm'),
}

export const guestKinds = [lxc, kvm] as const

/** Returns the command prefix to run a program of the host in a container's network. @param pid pid of its init */
export function inContainer(pid: number | string): string[] {
  return ['nsenter', `--net=/proc/${pid}/ns/net`]
}

/** Returns the command prefix that runs a program of BusyBox, or of `installTools`, inside a virtual machine. */
export function inMachine({ address, port = 22, password }: SshTarget): string[] {
  return [here('in-machine.sh'), password, address, `${port}`]
}

/** Returns the SSH target for a virtual machine of the kind `kvm`. */
export const machineAt = (address: string, port = 22): SshTarget => ({ address, port, password: login.sshPassword })

/** Copies packets.py and the Python that it needs into a virtual machine, to the same paths as on the host. */
export async function installTools(target: SshTarget): Promise<void> {
  await sshInto(target, 'true')
  const files = sh('/usr/bin/python3', '-IB', here('../network/python-files.py'))
  const tar = spawn('sh', ['-c', 'tar -C / --dereference -c -T - | gzip -1'])
  const [program = '', ...args] = [...inMachine(target), 'sh', '-c', 'gunzip | tar -C / -x']
  const untar = spawn(program, args, { stdio: ['pipe', 'ignore', 'inherit'] })
  tar.stdout.pipe(untar.stdin)
  tar.stdin.end(files)
  const [code] = (await once(untar, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`the tools could not be copied to ${target.address}: exit code ${code}`)
}
