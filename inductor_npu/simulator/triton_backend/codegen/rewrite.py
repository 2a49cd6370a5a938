def rewrite(function): pass
