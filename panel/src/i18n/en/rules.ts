/** Rules that a field violates, by the name in `details.rule` of the API. */
export const rules = {
  'error.inField': '{{field}}: {{text}}',
  'error.rule.required': 'This field is required.',
  'error.rule.not_empty': 'This field must not be empty.',
  'error.rule.one_of': 'Allowed values: {{allowed}}.',
  'error.rule.type_integer': 'Enter a whole number.',
  'error.rule.type_number': 'Enter a number.',
  'error.rule.type_string': 'Enter a text.',
  'error.rule.format_ipv4': 'Enter an IPv4 address.',
  'error.rule.format_ipv6': 'Enter an IPv6 address.',
  'error.rule.range': 'Enter a number from {{min}} to {{max}}.',
  'error.rule.minimum': 'Enter a number of at least {{min}}.',
  'error.rule.maximum': 'Enter a number of at most {{max}}.',
  'error.rule.min_length': 'Enter at least {{min}} characters.',
  'error.rule.max_length': 'Enter at most {{max}} characters.',
  'error.rule.min_items': 'Too few entries: at least {{min}} are needed.',
  'error.rule.max_items': 'Too many entries: at most {{max}} are allowed.',
  'error.rule.guest_name': 'Use 1 to 63 letters, digits, “.”, “_” and “-”, beginning with a letter or digit.',
  'error.rule.not_digits_only': 'The name must contain a letter.',
  'error.rule.not_a_uuid': 'The name must not look like a UUID.',
  'error.rule.username':
    'Use 1 to 64 letters, digits, “.”, “_”, “@”, “+” and “-”, beginning with a letter or digit. “provider” and “system” are reserved.',
  'error.rule.ssh_password':
    'Use 8 to 64 letters, digits and punctuation marks without spaces, with at least one letter and one digit.',
  'error.rule.image_id': 'Use lower-case letters, digits, “.” and “-”.',
  'error.rule.uuid': 'Enter a UUID in lower case.',
  'error.rule.time_of_day': 'Enter a time of day in the form HH:MM.',
  'error.rule.description': 'Use one line of at most 200 printable characters.',
  'error.rule.suspension_text': 'Use one line of at most 500 printable characters.',
  'error.rule.tag': 'Use tags of 1 to 32 lower-case letters, digits, “-”, “_”, “.” and “:”.',
  'error.rule.placement_name':
    'Use up to 63 lower-case letters, digits, “-”, “_” and “.”, beginning and ending with a letter or digit.',
  'error.rule.host_label':
    'Use labels such as ssd or disk=nvme. Each part has at most 63 lower-case letters, digits, “-”, “_” and “.”.',
  'error.rule.note': 'Use at most 1000 printable characters.',
  'error.rule.image_name': 'Use one line of 1 to 100 printable characters.',
  'error.rule.image_word': 'Use 1 to 64 letters, digits, “.”, “_”, “+” and “-”, beginning with a letter or digit.',
  'error.rule.image_url': 'Enter a URL with http or https.',
  'error.rule.sha256': 'Enter 64 hexadecimal digits.',
  'error.rule.key_name': 'Use one line with at least one visible character.',
  'error.rule.printable_line': 'Use one line of printable characters.',
  'error.rule.interface_name': 'Enter the name of a network interface of at most 15 characters.',
  'error.rule.gateway_name': 'Use 1 to 50 letters, digits and “-”, beginning with a letter or digit.',
  'error.rule.host_cpu':
    'Not enough vCPUs: {{requested}} are needed, and {{host}}, the host with the most room, has {{free}} left.',
  'error.rule.host_ram':
    'Not enough memory: {{requested}} MiB are needed, and {{host}}, the host with the most room, has {{free}} MiB left.',
  'error.rule.host_disk':
    'Not enough disk space: {{requested}} GiB are needed, and {{host}}, the host with the most room, has {{free}} GiB left.',
} as const
