import { expect } from 'chai'
import { agentText } from './agent-texts.ts'

describe('the Chinese texts for messages of agents', () => {
  for (const [text, expected] of [
    ['shut down from inside', '实例已从内部关机。'],
    ['storage pool 93 % full, 7.1 of 100 GiB are free', '存储池已使用 93%，剩余 7.1 GiB，共 100 GiB。'],
    [
      'packets from the public addresses of eth1 and 192.0.2.1 leave the host through eth0: that router must accept these packets',
      '公网地址（eth1 and 192.0.2.1）的数据包经由 eth0 离开主机，该路由器必须放行这些数据包。',
    ],
    ['guest a$2b has lost its interface veth7: restart the guest', '实例 a$2b 失去了网络接口 veth7，请重启该实例。'],
  ] as const)
    it(`translate “${text}”`, () => expect(agentText(text)).to.equal(expected))

  it('leave unknown messages as they are', () =>
    expect(agentText('no space left on device: $1')).to.equal('no space left on device: $1'))
})
