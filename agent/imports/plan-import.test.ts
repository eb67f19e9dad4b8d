import { expect } from 'chai'
import { BerthError } from '../../shared/errors.js'
import type { ForeignContainer, ImportChoices } from './contract.js'
import { planGuest, type ImportFacts } from './plan-import.js'

const gib = 1024 ** 3
const foreign: ForeignContainer = {
  name: 'web1',
  vcpuMilli: 2000,
  ramMb: 2048,
  diskBytes: 10 * gib,
  addresses: [],
  mappings: [],
  devices: [],
  notes: [],
}
const facts: ImportFacts = {
  usedBytes: 3 * gib,
  isArchive: false,
  isFree: () => true,
  hasAddress: (address) => address === '192.0.2.1',
}

function plan(container: Partial<ForeignContainer> = {}, choices: ImportChoices = {}, more: Partial<ImportFacts> = {}) {
  return planGuest({ ...foreign, ...container }, choices, { ...facts, ...more })
}

function codeOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (error instanceof BerthError) return `${error.code} ${error.field ?? ''}`.trim()
    throw error
  }
  return 'accepted'
}

describe('the planned guest for an imported container', () => {
  it('has the name and the limits of the container, and a port mapping for SSH', () => {
    const { name, spec, notes } = plan()
    expect(name).to.equal('web1')
    expect(spec.limits).to.include({ vcpuMilli: 2000, ramMb: 2048, diskGb: 10 })
    expect(spec.portMappings).to.deep.equal([
      {
        containerPort: 22,
        containerPortEnd: 0,
        hostPort: 0,
        hostPortEnd: 0,
        hostIp: '',
        protocol: 'tcp',
        description: 'ssh',
      },
    ])
    expect([spec.start, notes]).to.deep.equal([false, []])
  })

  it('has the name, limits and start option that the operator chooses', () => {
    const { name, spec } = plan({}, { name: 'web2', vcpu: 0.5, ramMb: 64, diskGb: 5, start: true })
    expect([name, spec.start]).to.deep.equal(['web2', true])
    expect(spec.limits).to.include({ vcpuMilli: 500, ramMb: 64, diskGb: 5 })
  })

  it('has default limits, and a disk larger than its files, if the container has no limits', () => {
    const { vcpuMilli: _cpu, ramMb: _ram, diskBytes: _disk, ...unlimited } = foreign
    const { spec, notes } = planGuest(unlimited, {}, facts)
    expect(spec.limits).to.include({ vcpuMilli: 1000, ramMb: 1024, diskGb: 4 })
    expect(notes.map(({ part }) => part)).to.deep.equal(['processors', 'memory', 'disk'])
  })

  it('has a disk several times as large as the archive from which it is imported', () => {
    const { diskBytes: _disk, ...unlimited } = foreign
    const { spec } = planGuest(unlimited, {}, { ...facts, usedBytes: gib, isArchive: true })
    expect(spec.limits?.diskGb).to.equal(6)
  })

  it('has the nearest permitted limits if the limits of the container are out of range', () => {
    const { spec, notes } = plan({ vcpuMilli: 10, ramMb: 2 ** 40 })
    expect(spec.limits).to.include({ vcpuMilli: 50, ramMb: 4_194_304 })
    expect(notes.map(({ part }) => part)).to.deep.equal(['processors', 'memory'])
  })

  const range = { protocol: 'tcp', hostIp: '', hostPort: 20_000, containerPort: 80, length: 3 } as const

  it('keeps the host ports of the container if they are free', () => {
    const { spec, notes } = plan({
      mappings: [
        { ...range, containerPort: 21 },
        { ...range, hostIp: '192.0.2.1' },
      ],
    })
    expect(spec.portMappings[0]).to.include({ hostPort: 20_000, hostPortEnd: 20_002, containerPortEnd: 23 })
    expect(spec.portMappings[1]).to.include({ hostIp: '192.0.2.1', containerPort: 80 })
    expect(notes).to.deep.equal([])
  })

  it('keeps the descriptions of mappings', () => {
    const { spec } = plan({ mappings: [{ ...range, description: 'web' }] })
    expect(spec.portMappings.map(({ description }) => description)).to.deep.equal(['web', 'ssh'])
  })

  it('has at most 1000 mappings, one of which is for SSH', () => {
    const many = (first: number) =>
      Array.from({ length: 1000 }, (_, index) => ({ ...range, length: 1, containerPort: first + index }))
    const without = plan({ mappings: many(1000) })
    expect(without.spec.portMappings).to.have.length(1000)
    expect(without.spec.portMappings.at(-1)).to.include({ containerPort: 22, hostPort: 0 })
    expect(without.notes.map(({ part }) => part)).to.deep.equal(['port mappings'])
    const withSsh = plan({ mappings: many(20) })
    expect(withSsh.spec.portMappings).to.have.length(1000)
    expect(withSsh.notes).to.deep.equal([])
  })

  it('gets other host ports if the container’s ports are in use, on all addresses if the host lacks the container’s address', () => {
    const mapping = { ...range, hostIp: '198.51.100.1' }
    const { spec, notes } = plan({ mappings: [mapping] }, {}, { isFree: () => false })
    expect(spec.portMappings[0]).to.include({ hostIp: '', hostPort: 0, hostPortEnd: 0, containerPortEnd: 82 })
    expect(notes.map(({ part }) => part)).to.deep.equal(['tcp port 20000-20002', 'tcp port 20000-20002'])
  })

  for (const [name, container, choices, code] of [
    ['a container that cannot be imported', { refusal: 'it is running' }, {}, 'import_refused'],
    ['a name that leads out of a directory', { name: '../etc' }, {}, 'invalid_field name'],
    ['a name that is a number', { name: '100' }, {}, 'invalid_field name'],
    ['a chosen name with a line break', {}, { name: 'a\nb' }, 'invalid_field name'],
    ['a disk that is smaller than the files', {}, { diskGb: 2 }, 'disk_too_small disk'],
    ['a chosen disk that is too large', {}, { diskGb: 1e9 }, 'invalid_field disk'],
    ['half a megabyte of memory', {}, { ramMb: 0.5 }, 'invalid_field ram'],
    ['no processors', {}, { vcpu: 0 }, 'invalid_field vcpu'],
  ] as const)
    it(`is refused for ${name}`, () => expect(codeOf(() => plan(container, choices))).to.equal(code))
})
