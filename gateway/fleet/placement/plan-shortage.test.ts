import { expect } from 'chai'
import { planShortage } from './plan-shortage.js'

const ratios = { cpu: 4, ram: 1, disk: 0 }
const host = { name: 'host-a', description: { capacity: { cpuCores: 8, ramTotalMb: 4096, diskTotalGb: 100 } } }
const allocated = { vcpuMilli: 30_500, ramMb: 3072, diskGb: 500 }

describe('the error for a guest that fits on no host', () => {
  for (const [name, wanted, rule, values] of [
    ['names vCPUs', { vcpuMilli: 2000, ramMb: 512, diskGb: 10 }, 'host_cpu', { requested: 2, free: 1.5 }],
    ['names memory in MiB', { vcpuMilli: 1000, ramMb: 2048, diskGb: 10 }, 'host_ram', { requested: 2048, free: 1024 }],
  ] as const)
    it(name, () => {
      const error = planShortage({ host, allocated }, wanted, { ratios })
      expect(error.code).to.equal('resource_exhausted')
      expect(error.rule).to.deep.equal({ name: rule, values: { host: 'host-a', ...values } })
      expect(error.message).to.include(`host-a has ${values.free} left`)
      expect(error.messageWithoutHosts).to.equal('no host has enough free resources for the container')
    })

  it('never shows a negative amount', () => {
    const size = { host, allocated: { ...allocated, ramMb: 9000 } }
    const error = planShortage(size, { vcpuMilli: 100, ramMb: 64, diskGb: 1 }, { ratios })
    expect(error.rule?.values).to.include({ free: 0 })
  })

  it('has no amounts if the size of the host is unknown', () => {
    const unknown = { host: { name: 'host-a' }, allocated }
    expect(planShortage(unknown, { vcpuMilli: 100, ramMb: 64, diskGb: 1 }, { ratios }).rule).to.equal(undefined)
  })
})
