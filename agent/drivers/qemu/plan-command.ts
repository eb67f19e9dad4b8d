import type { Machine } from '../machine.js'
import type { DiskSystem } from './disk-system.js'
import { diskParts, planDisks, type Medium } from './plan-disks.js'

/** Facts about the host and the guest that the command line depends on. */
export interface CommandFacts {
  readonly name: string
  readonly acceleration: 'kvm' | 'tcg'
  readonly system: DiskSystem
  readonly media: readonly Medium[]
  /** Set if the guest's memory arrives from another host. QEMU then waits for the memory with a paused guest. */
  readonly arrival?: Arrival
}

/** Properties of a running guest that must be the same for its QEMU on the target host. */
export interface Arrival {
  /** Version of the board, for example `pc-q35-7.2`. */
  readonly board: string
  readonly processors: number
  readonly memoryMib: number
}

const mib = 1024 ** 2
/** Size of the cache for translated code, in MiB. By default, QEMU would use an eighth of the host's memory. */
export const translationCacheMib = 128

/** Interval at which QEMU asks the guest for its memory usage. */
const statisticsSeconds = 10

/**
 * Processor of translated guests: about x86-64-v2, which distributions now require. Further features would cost time,
 * because every instruction is translated.
 */
const translatedCpu = 'qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16'

/** Hyper-V features for Windows in a guest. Without these features, clock and locks take half a processor. */
const enlightenments = [
  'relaxed',
  'vapic',
  'spinlocks=0x1fff',
  'vpindex',
  'runtime',
  'synic',
  'stimer',
  'reset',
  'time',
  'frequencies',
  'tlbflush',
  'ipi',
].map((name) => `hv-${name}`)

/** Names that commands to QEMU use for its devices and block nodes. */
export const parts = { ...diskParts, balloon: 'balloon0', nic: 'nic0' } as const

/** Number of processors that a guest sees: its limit, rounded up. */
export function processorsOf({ vcpuMilli }: Pick<Machine['limits'], 'vcpuMilli'>): number {
  return Math.max(1, Math.ceil(vcpuMilli / 1000))
}

/** Memory of a guest in MiB, the unit that QEMU uses. */
export function memoryMibOf({ memoryBytes }: Pick<Machine['limits'], 'memoryBytes'>): number {
  return Math.max(64, Math.floor(memoryBytes / mib))
}

/**
 * Plans QEMU's arguments. QEMU opens no file itself: `%{NAME}` stands for a descriptor that launch-machine.pl passes to
 * QEMU. The arguments contain no user input. No value contains a comma, because commas separate QEMU's options.
 * @throws {Error} if a value does not have the expected form
 */
export function planCommand(machine: Machine, facts: CommandFacts): string[] {
  const { system, media } = facts
  return [
    '/usr/bin/qemu-system-x86_64',
    '-name',
    `guest=${check('name', facts.name)},debug-threads=on`,
    '-uuid',
    check('uuid', machine.uuid),
    '-nodefaults',
    '-no-user-config',
    '-sandbox',
    'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny',
    ...planBoard(machine, facts),
    ...planFirmware(facts),
    ...planMonitors(),
    ...planDisks(machine, facts, media),
    ...planNic(machine),
    ...planScreen(system),
    '-device',
    'virtio-rng-pci,ioeventfd=off',
    ...planBalloon(),
    '-device',
    'pvpanic-pci',
    ...(system.tpm ? planTpm() : []),
    ...(facts.arrival ? ['-S', '-incoming', `unix:${incomingSocket}`] : []),
  ]
}

/** Socket in QEMU's working directory on which QEMU waits for the memory of an arriving guest. */
export const incomingSocket = 'incoming'

/** Returns the limits with which a guest was started on another host. */
export function limitsOf({ processors, memoryMib }: Arrival): Pick<Machine['limits'], 'vcpuMilli' | 'memoryBytes'> {
  return { vcpuMilli: processors * 1000, memoryBytes: memoryMib * mib }
}

/** Plans the balloon, through which QEMU asks the guest for its memory usage. */
function planBalloon(): string[] {
  const asks = `guest-stats-polling-interval=${statisticsSeconds}`
  return ['-device', `virtio-balloon-pci,id=${parts.balloon},deflate-on-oom=on,free-page-reporting=on,${asks}`]
}

function planBoard(machine: Machine, { acceleration, system, arrival }: CommandFacts): string[] {
  const limits = { ...machine.limits, ...(arrival ? limitsOf(arrival) : {}) }
  const tcg = `tcg,thread=multi,tb-size=${translationCacheMib}`
  const processors = processorsOf(limits)
  return [
    '-accel',
    acceleration === 'kvm' ? 'kvm' : tcg,
    '-cpu',
    planProcessor(acceleration, system),
    '-smp',
    `${processors},sockets=1,cores=${processors},threads=1`,
    '-m',
    `${memoryMibOf(limits)}M`,
    '-overcommit',
    'mem-lock=off',
    // Windows reads the board's clock as local time.
    '-rtc',
    `base=${clockOf(system)},driftfix=slew`,
    '-boot',
    'strict=on',
    // After a shutdown, QEMU stays paused, so that the agent can distinguish a shutdown of the guest from a crash.
    '-action',
    'shutdown=pause,panic=none',
    '-global',
    'ICH9-LPC.disable_s3=1',
    '-global',
    'ICH9-LPC.disable_s4=1',
  ]
}

function planProcessor(acceleration: 'kvm' | 'tcg', { os }: Pick<DiskSystem, 'os'>): string {
  if (acceleration === 'tcg') return translatedCpu
  return os === 'windows' ? ['host', ...enlightenments].join(',') : 'host'
}

function clockOf({ os }: DiskSystem): string {
  return os === 'windows' ? 'localtime' : 'utc'
}

/** Plans board and firmware. With Secure Boot, the variables can only be written in SMM, which guests cannot enter. */
function planFirmware({ media, system, arrival }: CommandFacts): string[] {
  const isUefi = media.some(({ name }) => name === 'vars')
  const flash = isUefi ? ',pflash0=code,pflash1=vars' : ''
  const smm = isUefi && system.secureBoot ? 'on' : 'off'
  const version = arrival ? check('board', arrival.board) : 'q35'
  const board = ['-machine', `${version},usb=off,vmport=off,dump-guest-core=off,smm=${smm}${flash}`]
  return smm === 'on' ? [...board, '-global', 'driver=cfi.pflash01,property=secure,value=on'] : board
}

/** Plans the TPM, a separate program that is connected by a socket and ends together with QEMU. */
function planTpm(): string[] {
  return [
    '-chardev',
    'socket,id=tpm,fd=%{tpm}',
    '-tpmdev',
    'emulator,id=tpm0,chardev=tpm',
    '-device',
    'tpm-crb,tpmdev=tpm0',
  ]
}

/**
 * Controller of the serial ports. The first port is reserved for a console. Without these options, disk reads were a
 * fifth slower, because QEMU then checks 64 queues whenever one of its file descriptors is ready.
 */
const serialPorts = 'virtio-serial-pci,max_ports=2,ioeventfd=off'

/** Plans two monitors, because each serves one client at a time. The second is for requests that cannot wait. */
function planMonitors(): string[] {
  return [
    '-chardev',
    'socket,id=qmp,fd=%{qmp},server=on,wait=off',
    '-mon',
    'chardev=qmp,mode=control',
    '-chardev',
    'socket,id=qmp2,fd=%{qmp2},server=on,wait=off',
    '-mon',
    'chardev=qmp2,mode=control',
    '-chardev',
    'socket,id=serial,fd=%{serial},server=on,wait=off',
    '-serial',
    'chardev:serial',
    '-chardev',
    'socket,id=agent,fd=%{agent},server=on,wait=off',
    '-device',
    serialPorts,
    '-device',
    'virtserialport,chardev=agent,name=org.qemu.guest_agent.0',
  ]
}

/** Plans the network interface. It has its own PCIe root port, so that it can be plugged in again. */
function planNic({ nic }: Machine): string[] {
  return [
    '-device',
    'pcie-root-port,id=nicport,chassis=1,slot=1',
    '-netdev',
    'tap,id=net0,fd=%{tap}',
    '-device',
    `virtio-net-pci,id=${parts.nic},bus=nicport,netdev=net0,mac=${check('mac', nic.mac)},romfile=`,
  ]
}

/** Plans the screen, with its socket in the working directory. A tablet makes the guest's pointer follow the user's. */
function planScreen({ os }: DiskSystem): string[] {
  const card = ['-display', 'none', '-vga', 'none', '-device', 'VGA,id=video0,vgamem_mb=16']
  const pointer = os === 'windows' ? ['-device', 'qemu-xhci,id=usb', '-device', 'usb-tablet,bus=usb.0'] : []
  return [...card, ...pointer, '-vnc', 'unix:vnc,share=force-shared'] // no viewer can disconnect another viewer
}

/** Version of the board, as QEMU names it. */
export const boardPattern = /^pc-q35-\d{1,2}\.\d{1,2}$/

const patterns = {
  name: /^[a-z]{1,8}-\d{1,10}$/,
  uuid: /^[0-9a-f-]{36}$/,
  mac: /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i,
  board: boardPattern,
} as const

function check(what: keyof typeof patterns, value: string): string {
  if (!patterns[what].test(value)) throw new Error(`${what} has an unexpected format`)
  return value
}
