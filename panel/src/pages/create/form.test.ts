import { expect } from 'chai'
import { curlLine, emptyForm, planRequest } from './form.ts'

describe('the request of the form for a new guest', () => {
  it('contains only fields that the user has filled, so that the gateway chooses all other values', () => {
    const plain = planRequest({ ...emptyForm, name: ' web1 ', image: 'debian-12' })
    expect(plain).to.deep.equal({
      name: 'web1',
      virtualization: 'lxc',
      template_id: 'debian-12',
      vcpu: 1,
      ram_mb: 1024,
      disk_gb: 10,
      assign_nat: true,
      port_mapping_count: 2,
      ssh_auth_mode: 'auto_password',
      snapshot_limit: 3,
    })
    const full = {
      ports: 0,
      ipv6: 1,
      login: 'key',
      publicKey: 'ssh-ed25519 A',
      expiresAt: '2027-01-02 03:04:00',
      tags: ' web  customer-42 ',
    } as const
    const request = planRequest({ ...emptyForm, ...full })
    expect(request.tags).to.deep.equal(['web', 'customer-42'])
    expect(request).to.include({
      assign_nat: false,
      assign_ipv6: true,
      ipv6_count: 1,
      ssh_public_key: 'ssh-ed25519 A',
      expires_at: '2027-01-02 03:04:00',
    })
  })

  it('contains an own password, which the shell command does not show, and the wish to stay stopped', () => {
    const request = planRequest({ ...emptyForm, login: 'password', password: 'secret-77', starts: false })
    expect(request).to.include({ ssh_auth_mode: 'password', ssh_password: 'secret-77', start: false })
    expect(curlLine('https://panel.example', request)).to.include('PASSWORD').and.not.to.include('secret-77')
  })

  it('contains the owner, the firewall and daily backups if they are chosen', () => {
    const request = planRequest({ ...emptyForm, owner: '7', firewall: 'web', backupTarget: 'disk' })
    expect(request).to.deep.include({
      owner_id: 7,
      backup_schedule: { interval_hours: 24, time: '03:00', retention: 7, target_id: 'disk' },
    })
    expect(request.firewall).to.include({ enabled: true, default_action: 'DROP' })
    expect(planRequest(emptyForm)).not.to.have.any.keys('owner_id', 'firewall', 'backup_schedule', 'start')
  })

  it('contains first-boot data only for virtual machines', () => {
    const form = { ...emptyForm, name: 'a', image: 'x', userData: '#!/bin/sh' }
    expect(planRequest(form)).not.to.have.property('user_data')
    expect(planRequest({ ...form, virtualization: 'kvm' })).to.include({ user_data: '#!/bin/sh' })
  })

  it('is a batch if several guests are requested', () => {
    const line = curlLine('https://p.example', planRequest({ ...emptyForm, name: 'a', image: 'x' }), 3)
    expect(line).to.include('https://p.example/api/v1/batch-create').and.to.include('"count": 3')
  })

  it('is escaped correctly in the shell command that the form shows', () => {
    const line = curlLine('https://p.example', planRequest({ ...emptyForm, name: "a'; rm -rf ~ #", image: 'x' }))
    expect(line).to.include(String.raw`"name": "a'\''; rm -rf ~ #"`)
    expect(line).to.include('https://p.example/api/v1/containers')
  })
})
